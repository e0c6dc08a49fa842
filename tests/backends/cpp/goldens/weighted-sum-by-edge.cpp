// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 balance=edge prefetch=16

namespace {

// what the launch is called with
struct Context {
    const int32_t* all_src_pair_of_edge;
    float* t;
    float* a;
    float* y;
    const int32_t* all_indptr;
    int64_t all_node_rows;
    int64_t all_edge_rows;
};

// y, for every node: sums over edges from begin to end, in a chunk up to last
NOINLINE void kernel_0_sum(
        const Context& c, int64_t n, int64_t begin, int64_t end, int64_t last, float* sums) {
    v16 acc_0 = v16{};
    v16 acc_16 = v16{};
    v16 acc_32 = v16{};
    v16 acc_48 = v16{};
    in_parts(begin, end,
        [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
        for (int32_t e = part_begin; e < part_end; ++e) {
            const int64_t ahead = minimum<int64_t>(e + 16, last);
            prefetch_row<64>(c.t + int64_t(c.all_src_pair_of_edge[ahead]) * 64);
            const int64_t pair = c.all_src_pair_of_edge[e];
            const float* in_t = c.t + int64_t(pair) * 64;
            const v16 h_0 = load<v16>(in_t);
            const v16 h_16 = load<v16>(in_t + 16);
            const v16 h_32 = load<v16>(in_t + 32);
            const v16 h_48 = load<v16>(in_t + 48);
            const float* in_a = c.a + int64_t(e) * 2;
            const v2 c_v2 = load<v2>(in_a);
            const v16 m_0 = c_v2[0] * h_0;
            const v16 m_16 = c_v2[0] * h_16;
            const v16 m_32 = c_v2[1] * h_32;
            const v16 m_48 = c_v2[1] * h_48;
            acc_0 += m_0;
            acc_16 += m_16;
            acc_32 += m_32;
            acc_48 += m_48;
        }
    }, acc_0, acc_16, acc_32, acc_48);
    store<v16>(sums, acc_0);
    store<v16>(sums + 16, acc_16);
    store<v16>(sums + 32, acc_32);
    store<v16>(sums + 48, acc_48);
}

// kernel_0: what follows a node's sums
NOINLINE void kernel_0_finish(const Context& c, int64_t n, const float* sums) {
    v16 acc_0 = load<v16>(sums);
    v16 acc_16 = load<v16>(sums + 16);
    v16 acc_32 = load<v16>(sums + 32);
    v16 acc_48 = load<v16>(sums + 48);
    float* out_y = c.y + int64_t(n) * 64;
    store<v16>(out_y, acc_0);
    store<v16>(out_y + 16, acc_16);
    store<v16>(out_y + 32, acc_32);
    store<v16>(out_y + 48, acc_48);
}

// kernel_0: the nodes that begin in a chunk of edges
NOINLINE void kernel_0(const Context& c, int64_t block, int64_t blocks, float* carry) {
    const bool is_last = block + 1 == blocks;
    const int64_t first = block * 2048;
    const int64_t stop = is_last ? c.all_indptr[c.all_node_rows] : first + 2048;
    int64_t n = lower_bound(c.all_indptr, c.all_node_rows + 1, first);
    if (n > 0 && c.all_indptr[n] > first) {
        // the end, or all, of this chunk belongs to a node that began before
        const int64_t end = minimum<int64_t>(c.all_indptr[n], stop);
        kernel_0_sum(c, n - 1, first, end, stop - 1, carry + block * 128);
    }
    while (n < c.all_node_rows && (is_last || c.all_indptr[n] < stop)) {
        const int64_t begin = c.all_indptr[n];
        const int64_t end = c.all_indptr[n + 1];
        if (end > stop) {
            kernel_0_sum(c, n, begin, stop, stop - 1, carry + block * 128 + 64);
        } else {
            alignas(64) float sums[64];
            kernel_0_sum(c, n, begin, end, stop - 1, sums);
            kernel_0_finish(c, n, sums);
        }
        n += 1;
    }
}

// kernel_0: adds the sums of another part of a node's edges
static inline void kernel_0_add(float* sums, const float* part) {
    for (int i = 0; i < 64; ++i) {
        sums[i] = sums[i] + part[i];
    }
}

// kernel_0: nodes whose edges lie in several chunks, added up in order
static inline void kernel_0_join(const Context& c, int64_t blocks, float* carry) {
    for (int64_t block = 0; block < blocks - 1; ++block) {
        const int64_t stop = (block + 1) * 2048;
        const int64_t n = lower_bound(c.all_indptr, c.all_node_rows + 1, stop) - 1;
        const int64_t end = c.all_indptr[n + 1];
        if (c.all_indptr[n] >= stop - 2048 && end > stop) {
            float* sums = carry + block * 128 + 64;
            for (int64_t next = block + 1; next < (end + 2047) / 2048; ++next) {
                kernel_0_add(sums, carry + next * 128);
            }
            kernel_0_finish(c, n, sums);
        }
    }
}

}  // namespace

// the launch; see its slots for the order of the arguments
EXPORT int hetune_launch(void* const* pointers, const int64_t* counts, int threads) {
    Context c;
    c.all_src_pair_of_edge = static_cast<const int32_t*>(pointers[0]);
    c.t = static_cast<float*>(pointers[1]);
    c.a = static_cast<float*>(pointers[2]);
    c.y = static_cast<float*>(pointers[3]);
    c.all_indptr = static_cast<const int32_t*>(pointers[4]);
    c.all_node_rows = counts[0];
    c.all_edge_rows = counts[1];
    int64_t blocks = maximum<int64_t>(1, (c.all_edge_rows + 2047) / 2048);
    float* carry = static_cast<float*>(malloc(blocks * 128 * sizeof(float)));
    // without memory: one block, which has nothing to carry
    if (!carry) {
        blocks = 1;
    }
    const bool overflowed =
        in_turns(blocks, 0, threads, [&](int64_t block) {
        kernel_0(c, block, blocks, carry);
    });
    kernel_0_join(c, blocks, carry);
    free(carry);
    return overflowed || has_overflowed();
}
