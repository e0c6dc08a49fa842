// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    const int32_t* node_blocks;
    const int32_t* all_node_dst_pair_indptr;
    float* q;
    const int32_t* all_dst_pair_indptr;
    const int32_t* all_indptr;
    const int32_t* all_src;
    float* k;
    float* score;
    const int32_t* block_order;
    int64_t blocks;
    int64_t hubs;
};

// score, for every node
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const int64_t stop = c.node_blocks[block + 1];
    const int64_t last_edge_all = c.all_indptr[stop] - 1;
    for (int64_t n = c.node_blocks[block]; n < stop; ++n) {
        if (c.all_indptr[n] == c.all_indptr[n + 1]) {
            continue;
        }
        v2 top = splat<v2>(-infinity);
        const int32_t p_end = c.all_node_dst_pair_indptr[n + 1];
        for (int32_t p = c.all_node_dst_pair_indptr[n]; p < p_end; ++p) {
            const float* in_q = c.q + int64_t(p) * 48;
            const v16 query_0 = load<v16>(in_q);
            const v8 query_16 = load<v8>(in_q + 16);
            const v16 query_24 = load<v16>(in_q + 24);
            const v8 query_40 = load<v8>(in_q + 40);
            const int32_t e_end = c.all_dst_pair_indptr[p + 1];
            for (int32_t e = c.all_dst_pair_indptr[p]; e < e_end; ++e) {
                const int64_t ahead = minimum<int64_t>(e + 16, last_edge_all);
                prefetch_row<48>(c.k + int64_t(c.all_src[ahead]) * 48);
                const int64_t src = c.all_src[e];
                const float* in_k = c.k + int64_t(src) * 48;
                const v16 key_0 = load<v16>(in_k);
                const v8 key_16 = load<v8>(in_k + 16);
                const v16 key_24 = load<v16>(in_k + 24);
                const v8 key_40 = load<v8>(in_k + 40);
                const float s_h0 = hsum(key_0 * query_0) + hsum(key_16 * query_16);
                const float s_h1 = hsum(key_24 * query_24) + hsum(key_40 * query_40);
                const v2 s = v2{s_h0, s_h1};
                float* out_score = c.score + int64_t(e) * 2;
                store<v2>(out_score, s);
                top = maximum<v2>(top, s);
            }
        }
        v2 total = v2{};
        const int32_t e_end_v2 = c.all_indptr[n + 1];
        v16 total_lanes = v16{};
        in_parts(c.all_indptr[n], e_end_v2,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            across_edges<v16, 2>(part_begin, part_end,
                [&](auto zero, int32_t e) INLINE_LAMBDA {
                typedef decltype(zero) V;
                const V raw = load<V>(c.score + int64_t(e) * 2);
                const V shifted = raw - repeat<V>(top);
                const V p_v2 = exp(shifted);
                store<V>(c.score + int64_t(e) * 2, p_v2);
                add_lanes(total_lanes, total, p_v2);
            });
        }, total_lanes);
        total += fold_sum<v2>(total_lanes);
        const v2 factor = 1.0f / total;
        across_edges<v16, 2>(c.all_indptr[n], e_end_v2,
            [&](auto zero, int32_t e) INLINE_LAMBDA {
            typedef decltype(zero) V;
            const V q_raw = load<V>(c.score + int64_t(e) * 2);
            const V share = q_raw * repeat<V>(factor);
            store<V>(c.score + int64_t(e) * 2, share);
        });
    }
}

}  // namespace

// the launch; see its slots for the order of the arguments
EXPORT int hetune_launch(void* const* pointers, const int64_t* counts, int threads) {
    Context c;
    c.node_blocks = static_cast<const int32_t*>(pointers[0]);
    c.all_node_dst_pair_indptr = static_cast<const int32_t*>(pointers[1]);
    c.q = static_cast<float*>(pointers[2]);
    c.all_dst_pair_indptr = static_cast<const int32_t*>(pointers[3]);
    c.all_indptr = static_cast<const int32_t*>(pointers[4]);
    c.all_src = static_cast<const int32_t*>(pointers[5]);
    c.k = static_cast<float*>(pointers[6]);
    c.score = static_cast<float*>(pointers[7]);
    c.block_order = static_cast<const int32_t*>(pointers[8]);
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
