// The features of a graph: plain C ABI, raw pointers; counts are int64_t, ids int32_t.
//
// About one pass over each array; tests compare it with `tests/costmodel/_graph_numpy.py`. Each
// task is done by one thread, and counts are integers, so that the result does not depend on the
// number of threads.
// Returns a negative number when memory runs out; nothing else can fail.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <new>
#include <vector>

#define EXPORT __attribute__((visibility("default")))

namespace {

constexpr int64_t kOutOfMemory = -1;
// Below this many edges it pays little to wake other threads, which may be busy.
constexpr int64_t kParallelEdges = 1 << 14;
// Equal counters beside each other: a loop that adds to the same one again need not wait for it.
constexpr int kLanes = 4;

double ratio(int64_t part, int64_t whole) {
    return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

struct Group {
    int64_t value, count;
};

// A multiset of numbers, most of them small.
class Tally {
  public:
    void add(int64_t position, int64_t value) {
        if (value < kSmall) {
            ++small_[position & (kLanes - 1)][value];
        } else {
            large_.push_back(value);
        }
    }

    // The values but 0, ascending, with their counts; a large value may come repeatedly.
    std::vector<Group> groups() {
        std::vector<Group> found;
        for (int64_t value = 1; value < kSmall; ++value) {
            int64_t count = 0;
            for (const auto& lane : small_) count += lane[value];
            if (count) found.push_back({value, count});
        }
        std::sort(large_.begin(), large_.end());
        for (const int64_t value : large_) found.push_back({value, 1});
        return found;
    }

  private:
    static constexpr int64_t kSmall = 512;
    std::array<std::array<int64_t, kSmall>, kLanes> small_{};
    std::vector<int64_t> large_;
};

// How positive numbers are distributed; everything is 0 where there are none.
struct Distribution {
    int64_t count = 0, sum = 0, largest = 0, median = 0, p90 = 0, p99 = 0;
    double gini = 0, variation = 0, top_share = 0;

    double mean() const { return ratio(sum, count); }
    double largest_share() const { return ratio(largest, sum); }
};

Distribution describe(const std::vector<Group>& groups) {
    Distribution d;
    if (groups.empty()) return d;
    __int128 ranked = 0, squares = 0;
    for (const auto [value, members] : groups) {
        ranked += __int128{value} * members * (2 * d.count + members + 1);
        squares += __int128{value} * value * members;
        d.count += members;
        d.sum += value * members;
    }
    d.largest = groups.back().value;
    const double count = static_cast<double>(d.count), sum = static_cast<double>(d.sum);
    d.gini = static_cast<double>(ranked - __int128{d.count + 1} * d.sum) / (count * sum);
    d.variation = std::sqrt(static_cast<double>(d.count * squares - __int128{d.sum} * d.sum)) / sum;
    int64_t reached = 0;
    for (const auto [value, members] : groups) {
        reached += members;
        if (!d.median && reached * 100 >= d.count * 50) d.median = value;
        if (!d.p90 && reached * 100 >= d.count * 90) d.p90 = value;
        if (!d.p99 && reached * 100 >= d.count * 99) d.p99 = value;
    }
    int64_t left = (d.count + 99) / 100, top = 0;
    for (auto group = groups.rbegin(); left > 0; ++group) {
        const int64_t taken = std::min(left, group->count);
        top += taken * group->value;
        left -= taken;
    }
    d.top_share = ratio(top, d.sum);
    return d;
}

// Number of equal shares with the same entropy.
double effective(const std::vector<Group>& groups, int64_t sum) {
    if (groups.empty()) return 0.0;
    double entropy = 0;
    for (const auto [value, members] : groups) {
        const double share = ratio(value, sum);
        entropy -= static_cast<double>(members) * share * std::log(share);
    }
    return std::exp(entropy);
}

constexpr int kWindowBits = 13;
constexpr int64_t kWindow = int64_t{1} << kWindowBits;
constexpr std::array<double, 5> kCachedRows = {1 << 6, 1 << 9, 1 << 12, 1 << 15, 1 << 18};

// What a walk along a list of rows asks for anew.
//
// `fresh[k]` is the share of its steps that ask for a row for the first time in their window of 2^k
// steps; windows start at multiples of their size, so that smaller ones tile the larger.
struct Walk {
    std::array<double, kWindowBits + 1> fresh{};
    double near_share = 0;  // steps that end at most 16 rows from where they began

    double steps_per_row(int bits) const { return fresh[bits] > 0 ? 1 / fresh[bits] : 0.0; }
};

Walk walk(const int32_t* rows, int64_t steps, int64_t num_rows) {
    Walk found;
    if (steps == 0) return found;
    std::vector<int32_t> last(num_rows, -1);
    std::array<std::array<int64_t, 33>, kLanes> widths{};
    const int64_t windows = (steps + kWindow - 1) / kWindow;
    const int64_t chosen = std::min(windows, std::max<int64_t>(4, (windows + 7) / 8));
    int64_t seen = 0, near = 0;
    for (int64_t c = 0; c < chosen; ++c) {
        const int64_t begin = (2 * c + 1) * windows / (2 * chosen) * kWindow;
        const int64_t end = std::min(steps, begin + kWindow);
        // Two steps are in one window of 2^k if their numbers differ in the lowest k bits only.
        for (int64_t i = begin; i < end; ++i) {
            int32_t& before = last[rows[i]];
            const uint32_t differ = static_cast<uint32_t>(before) ^ static_cast<uint32_t>(i);
            ++widths[i & (kLanes - 1)][std::bit_width(differ)];
            before = static_cast<int32_t>(i);
        }
        int32_t close = 0;
        for (int64_t i = begin + 1; i < end; ++i) close += std::abs(rows[i] - rows[i - 1]) <= 16;
        near += close;
        seen += end - begin;
    }
    int64_t fresh = seen;
    for (int k = 0; k <= kWindowBits; ++k) {
        for (const auto& lane : widths) fresh -= lane[k];
        found.fresh[k] = ratio(fresh, seen);
    }
    found.near_share = ratio(near, seen - chosen);
    return found;
}

// Shares of the steps that miss in caches of `kCachedRows` rows, `distinct` rows being walked.
//
// A window of w steps asks for F(w) rows: a cache of F(w) rows misses where F grows with w.
std::array<double, kCachedRows.size()> misses(const Walk& walk, int64_t steps, int64_t distinct) {
    std::array<double, kCachedRows.size()> found{};
    if (steps == 0) return found;
    const double floor = ratio(distinct, steps), all = static_cast<double>(distinct);
    struct Point {
        double rows, share;
    };
    std::vector<Point> curve;
    double window = 1, rows = 1;
    const auto extend = [&](double next_window, double next_rows) {
        next_rows = std::clamp(next_rows, rows, all);
        const double slope = (next_rows - rows) / (next_window - window);
        curve.push_back({(rows + next_rows) / 2, slope});
        window = next_window;
        rows = next_rows;
    };
    for (int k = 1; k <= kWindowBits && int64_t{1} << k < steps; ++k) {
        const double next = static_cast<double>(int64_t{1} << k);
        extend(next, next * walk.fresh[k]);
    }
    if (steps > 1) extend(static_cast<double>(steps), all);
    for (size_t c = 0; c < kCachedRows.size(); ++c) {
        const double cached = kCachedRows[c];
        found[c] = floor;
        if (cached >= all || curve.empty()) continue;
        size_t next = 0;
        while (next < curve.size() && curve[next].rows < cached) ++next;
        double share;
        if (next == 0 || next == curve.size()) {
            share = curve[next == 0 ? 0 : next - 1].share;
        } else {
            const auto [low, high] = std::array{curve[next - 1], curve[next]};
            const double along = std::log(cached / low.rows) / std::log(high.rows / low.rows);
            share = low.share + along * (high.share - low.share);
        }
        found[c] = std::max(share, floor);
    }
    return found;
}

struct Graph {
    int64_t nodes, edges, node_types, edge_types, src_pairs, dst_pairs;
    const int32_t *src, *src_pair_of_edge, *indptr, *dst_pair_etype;
    const int64_t *relation_edges, *relation_src_pairs, *relation_dst_pairs;
};

struct Degrees {
    Distribution out, in;
    int64_t isolated = 0;
};

void walk_out_degrees(const Graph& g, Degrees& found) {
    std::vector<int32_t> degree(g.nodes, 0);
    for (int64_t i = 0; i < g.edges; ++i) ++degree[g.src[i]];
    Tally tally;
    for (int64_t n = 0; n < g.nodes; ++n) tally.add(n, degree[n]);
    found.out = describe(tally.groups());
    for (int64_t n = 0; n < g.nodes; ++n) {
        found.isolated += (degree[n] == 0) & (g.indptr[n] == g.indptr[n + 1]);
    }
}

Distribution in_degrees(const Graph& g) {
    Tally tally;
    for (int64_t n = 0; n < g.nodes; ++n) tally.add(n, g.indptr[n + 1] - g.indptr[n]);
    return describe(tally.groups());
}

struct Relations {
    Distribution sizes;
    double effective = 0;
    int64_t hybrid_rows = 0, source_side_edges = 0;
};

Relations relations(const Graph& g) {
    Relations found;
    Tally tally;
    for (int64_t r = 0; r < g.edge_types; ++r) {
        const int64_t sources = g.relation_src_pairs[r], targets = g.relation_dst_pairs[r];
        tally.add(r, g.relation_edges[r]);
        found.hybrid_rows += std::min(sources, targets);
        if (sources < targets) found.source_side_edges += g.relation_edges[r];
    }
    const std::vector<Group> sizes = tally.groups();
    found.sizes = describe(sizes);
    found.effective = effective(sizes, found.sizes.sum);
    return found;
}

// Writes the features in the order of `NAMES` and returns how many there are.
int64_t extract(const Graph& g, int64_t threads, double* out) {
    Degrees degrees;
    Relations by_type;
    Walk sources, pairs, types;
    // An exception must not leave its section.
    bool full[4] = {};
    const auto attempt = [&](int section, auto&& task) {
        try {
            task();
        } catch (const std::bad_alloc&) {
            full[section] = true;
        }
    };
    const int workers = g.edges < kParallelEdges ? 1 : std::min(static_cast<int>(threads), 4);
#pragma omp parallel sections num_threads(workers)
    {
#pragma omp section
        attempt(0, [&] { walk_out_degrees(g, degrees); });
#pragma omp section
        attempt(1, [&] { pairs = walk(g.src_pair_of_edge, g.edges, g.src_pairs); });
#pragma omp section
        attempt(2, [&] { sources = walk(g.src, g.edges, g.nodes); });
#pragma omp section
        attempt(3, [&] {
            types = walk(g.dst_pair_etype, g.dst_pairs, g.edge_types);
            degrees.in = in_degrees(g);
            by_type = relations(g);
        });
    }
    if (full[0] || full[1] || full[2] || full[3]) throw std::bad_alloc();

    const auto& [out_degree, in_degree, isolated] = degrees;
    const Distribution& sizes = by_type.sizes;
    double* next = out;
    const auto put = [&](std::initializer_list<double> values) {
        next = std::copy(values.begin(), values.end(), next);
    };
    const auto count = [](int64_t value) { return static_cast<double>(value); };
    // num_nodes, num_edges, num_ntypes, num_etypes
    put({count(g.nodes), count(g.edges), count(g.node_types), count(g.edge_types)});
    // used_etypes, src_pairs, dst_pairs, hybrid_rows
    put({count(sizes.count), count(g.src_pairs), count(g.dst_pairs), count(by_type.hybrid_rows)});
    // sources, destinations, isolated_nodes
    put({count(out_degree.count), count(in_degree.count), count(isolated)});
    // src_pairs_per_edge, dst_pairs_per_edge
    put({ratio(g.src_pairs, g.edges), ratio(g.dst_pairs, g.edges)});
    // hybrid_rows_per_edge, src_side_edge_share
    put({ratio(by_type.hybrid_rows, g.edges), ratio(by_type.source_side_edges, g.edges)});
    // etypes_per_source, etypes_per_destination
    put({ratio(g.src_pairs, out_degree.count), ratio(g.dst_pairs, in_degree.count)});
    // in_degree_mean, in_degree_p50, in_degree_p90, in_degree_p99
    put({in_degree.mean(), count(in_degree.median), count(in_degree.p90), count(in_degree.p99)});
    // in_degree_max, in_degree_gini, in_degree_cv
    put({count(in_degree.largest), in_degree.gini, in_degree.variation});
    // in_degree_top_share, in_degree_hub_share
    put({in_degree.top_share, in_degree.largest_share()});
    // out_degree_mean, out_degree_p99, out_degree_max, out_degree_gini
    put({out_degree.mean(), count(out_degree.p99), count(out_degree.largest), out_degree.gini});
    // out_degree_cv, out_degree_top_share, out_degree_hub_share
    put({out_degree.variation, out_degree.top_share, out_degree.largest_share()});
    // relation_edges_max, relation_edges_max_share, relation_edges_p50, relation_edges_gini
    put({count(sizes.largest), sizes.largest_share(), count(sizes.median), sizes.gini});
    // effective_relations, dst_pairs_per_etype_256, dst_pairs_per_etype_4096, near_gathers
    put({by_type.effective, types.steps_per_row(8), types.steps_per_row(12), sources.near_share});
    // src_misses_64 to src_misses_262144
    for (const double share : misses(sources, g.edges, out_degree.count)) put({share});
    // src_pair_misses_64 to src_pair_misses_262144
    for (const double share : misses(pairs, g.edges, g.src_pairs)) put({share});
    return next - out;
}

}  // namespace

extern "C" {

// `counts`: nodes, edges, node types, edge types, source pairs, destination pairs. The lists are of
// the index of the whole graph; `relation_*` have an entry for each edge type.
EXPORT int64_t hetune_graph_features(const int64_t* counts, const int32_t* src,
                                     const int32_t* src_pair_of_edge, const int32_t* indptr,
                                     const int32_t* dst_pair_etype, const int64_t* relation_edges,
                                     const int64_t* relation_src_pairs,
                                     const int64_t* relation_dst_pairs, double* out,
                                     int64_t threads) {
    const Graph graph{counts[0], counts[1], counts[2], counts[3], counts[4], counts[5],
                      src, src_pair_of_edge, indptr, dst_pair_etype,
                      relation_edges, relation_src_pairs, relation_dst_pairs};
    try {
        return extract(graph, threads, out);
    } catch (const std::bad_alloc&) {
        return kOutOfMemory;
    }
}

}  // extern "C"
