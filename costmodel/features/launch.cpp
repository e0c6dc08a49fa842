// The features of launches: plain C ABI, raw pointers.
//
// What `computed_by_numpy` of `launch.py` computes, without its arrays in between. Nothing can fail.
#include <algorithm>
#include <cmath>
#include <cstdint>

#define EXPORT __attribute__((visibility("default")))

namespace {

// A row of `CandidateTable.columns`.
struct Launch {
    double matrix_flops, vector_flops, special, read_bytes, write_bytes, index_bytes, gathers,
        touched_bytes, scratch_bytes, gathered_bytes, table_bytes, pair_gathers, gemm_rows,
        edge_visits, scatter_bytes, kernels, gemms, segment_sums, k, n, weight_groups, weight_loads,
        weight_bytes, blocks, block_nodes, unblocked, edge_balanced;
};

// The fields of `MachineModel`.
struct Machine {
    double matrix_flops, vector_flops, special, own_bytes, shared_bytes, own_rate, shared_rate,
        memory_rate, exchange_seconds, launch_seconds, unevenness;

    double rate(double working_set) const {
        if (working_set <= own_bytes / 2) return own_rate;
        return working_set <= shared_bytes / 2 ? shared_rate : memory_rate;
    }

    double exchanged(const Launch& of, double threads) const {
        if (of.table_bytes > shared_bytes / 2) return 0;
        const double pairs = of.pair_gathers / std::max(of.gathers, 1.0);
        const double lines = pairs * std::min(of.table_bytes, of.gathered_bytes / threads) / 64;
        return lines * (threads - 1) * exchange_seconds;
    }
};

constexpr int kMisses = 5;

// Features of the graph: those that a launch has, too, and shares of gathers that miss.
struct Graph {
    double shown[8], src_misses[kMisses], src_pair_misses[kMisses];
};

// `missing_share` of `graph.py`: between sizes of caches, linear in the logarithm of their rows.
double missing_share(const double* shares, double cached_rows) {
    constexpr double first_bits = 6, step_bits = 3;
    const double bits = std::log2(std::max(cached_rows, 1.0));
    if (bits < first_bits) {
        const double none = shares[0] > 0 ? 1 : 0;
        return none + bits / first_bits * (shares[0] - none);
    }
    const double place = (bits - first_bits) / step_bits;
    if (place >= kMisses - 1) return shares[kMisses - 1];
    const int low = static_cast<int>(place);
    return shares[low] + (place - low) * (shares[low + 1] - shares[low]);
}

double misses(const Launch& of, const Graph& graph, double cache_bytes) {
    const double gathers = std::max(of.gathers, 1.0);
    const double held = cache_bytes / std::max(of.gathered_bytes / gathers, 4.0);
    const double pairs = of.pair_gathers / gathers, nodes = of.gathers / gathers - pairs;
    return nodes * missing_share(graph.src_misses, held) +
           pairs * missing_share(graph.src_pair_misses, held);
}

// The part of all work that the slowest thread does.
double slowest_share(const Launch& of, const Machine& machine, double threads) {
    if (of.unblocked > 0) return 1 / threads;
    const double each = threads / of.blocks;
    const double waiting = threads > 1 ? 1 + machine.unevenness * each * each : 1;
    return std::ceil(of.blocks / threads) / of.blocks * waiting;
}

// Writes a launch's features in the order of `NAMES`, and returns the roofline model's seconds.
double extract(const Launch& of, const Graph& graph, const Machine& machine, double threads,
               float* out) {
    const auto put = [&](double value) { *out++ = static_cast<float>(value); };
    const auto moved = [&](double bytes, double set) { return bytes / machine.rate(set); };
    const double compulsory = of.read_bytes + of.write_bytes + of.index_bytes;
    const double flops = of.matrix_flops + of.vector_flops + of.special;
    const double table = std::min(of.read_bytes, of.table_bytes), streamed = compulsory - table;
    const double parts[] = {
        of.matrix_flops / machine.matrix_flops,
        of.vector_flops / machine.vector_flops,
        of.special / machine.special,
        moved(of.gathered_bytes, table) + machine.exchanged(of, threads),
        moved(streamed, streamed),
        moved(of.scratch_bytes, of.scratch_bytes / of.blocks),
        moved(of.weight_loads, of.weight_bytes),
        moved(2 * of.scatter_bytes, of.scatter_bytes / of.blocks),
    };
    double busy = 0;
    for (const double part : parts) busy += part;
    const double seconds = busy * slowest_share(of, machine, threads) + machine.launch_seconds;
    put(std::log(seconds));
    for (const double part : parts) put(part / std::max(busy, 1e-12));
    for (const double amount :
         {of.matrix_flops, of.vector_flops, of.special, of.read_bytes, of.write_bytes,
          of.index_bytes, of.gathered_bytes, of.touched_bytes, of.scratch_bytes, of.scatter_bytes,
          of.weight_loads, of.gemm_rows, of.edge_visits}) {
        put(std::log1p(amount));
    }
    for (const double ratio : {
             of.blocks,
             of.blocks / threads,
             of.block_nodes,
             of.edge_visits / of.blocks,
             of.gemm_rows / std::max(of.weight_groups, 1.0),
             of.gathered_bytes / std::max(of.gathers, 1.0),
             of.gathered_bytes / std::max(of.read_bytes, 1.0),
             flops / std::max(compulsory, 1.0),
             of.table_bytes / machine.own_bytes,
             of.table_bytes / machine.shared_bytes,
             of.weight_bytes / machine.own_bytes,
             of.scratch_bytes / of.blocks / machine.own_bytes,
         }) {
        put(std::log(std::max(ratio, 1e-6)));
    }
    for (const double cache : {machine.own_bytes, machine.shared_bytes}) put(misses(of, graph, cache));
    put(of.pair_gathers / std::max(of.gathers, 1.0));
    for (const double plain : {of.kernels, of.gemms, of.segment_sums, of.k, of.n, of.unblocked,
                               of.edge_balanced, threads}) {
        put(plain);
    }
    for (const double shown : graph.shown) put(shown);
    return seconds;
}

}  // namespace

extern "C" {

// launches [rows]; out [rows, features]; seconds [rows].
EXPORT void hetune_launch_features(const Launch* launches, int64_t rows, const Graph* graph,
                                   const Machine* machine, int64_t threads, int64_t features,
                                   float* out, double* seconds) {
    for (int64_t row = 0; row < rows; ++row) {
        seconds[row] = extract(launches[row], *graph, *machine, static_cast<double>(threads),
                               out + row * features);
    }
}

}  // extern "C"
