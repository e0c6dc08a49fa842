// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    const int32_t* node_blocks;
    const int32_t* all_indptr;
    const int32_t* all_src_pair_of_edge;
    float* t;
    float* a;
    float* y;
    const int32_t* block_order;
    int64_t blocks;
    int64_t hubs;
};

// y, for every node
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const int64_t stop = c.node_blocks[block + 1];
    const int64_t last_edge_all = c.all_indptr[stop] - 1;
    for (int64_t n = c.node_blocks[block]; n < stop; ++n) {
        const int64_t ahead = minimum<int64_t>(n + 16, stop - 1);
        expect_row<64>(c.y + int64_t(ahead) * 64);
        v16 acc_0 = v16{};
        v16 acc_16 = v16{};
        v16 acc_32 = v16{};
        v16 acc_48 = v16{};
        const int32_t e_end = c.all_indptr[n + 1];
        in_parts(c.all_indptr[n], e_end,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            for (int32_t e = part_begin; e < part_end; ++e) {
                const int64_t ahead = minimum<int64_t>(e + 16, last_edge_all);
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
        float* out_y = c.y + int64_t(n) * 64;
        store<v16>(out_y, acc_0);
        store<v16>(out_y + 16, acc_16);
        store<v16>(out_y + 32, acc_32);
        store<v16>(out_y + 48, acc_48);
    }
}

}  // namespace

// the launch; see its slots for the order of the arguments
EXPORT int hetune_launch(void* const* pointers, const int64_t* counts, int threads) {
    Context c;
    c.node_blocks = static_cast<const int32_t*>(pointers[0]);
    c.all_indptr = static_cast<const int32_t*>(pointers[1]);
    c.all_src_pair_of_edge = static_cast<const int32_t*>(pointers[2]);
    c.t = static_cast<float*>(pointers[3]);
    c.a = static_cast<float*>(pointers[4]);
    c.y = static_cast<float*>(pointers[5]);
    c.block_order = static_cast<const int32_t*>(pointers[6]);
    c.blocks = counts[0];
    c.hubs = counts[1];
    int64_t blocks = c.blocks;
    const bool overflowed =
        in_turns(blocks, c.hubs, threads, [&](int64_t turn) {
        const int64_t block = c.block_order[turn];
        kernel_0(c, block);
    });
    return overflowed || has_overflowed();
}
