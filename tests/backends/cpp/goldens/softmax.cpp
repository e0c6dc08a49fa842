// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    const int32_t* node_blocks;
    const int32_t* all_indptr;
    const int32_t* all_dst_pair_of_edge;
    float* q;
    const int32_t* all_src;
    float* k;
    float* alpha;
    const int32_t* block_order;
    int64_t blocks;
    int64_t hubs;
};

// alpha, for every node
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const int64_t stop = c.node_blocks[block + 1];
    const int64_t last_edge_all = c.all_indptr[stop] - 1;
    for (int64_t n = c.node_blocks[block]; n < stop; ++n) {
        if (c.all_indptr[n] == c.all_indptr[n + 1]) {
            continue;
        }
        v2 share_max = splat<v2>(-infinity);
        const int32_t e_end = c.all_indptr[n + 1];
        for (int32_t e = c.all_indptr[n]; e < e_end; ++e) {
            const int64_t ahead = minimum<int64_t>(e + 16, last_edge_all);
            prefetch_row<48>(c.k + int64_t(c.all_src[ahead]) * 48);
            const int64_t pair = c.all_dst_pair_of_edge[e];
            const float* in_q = c.q + int64_t(pair) * 48;
            const v16 query_0 = load<v16>(in_q);
            const v8 query_16 = load<v8>(in_q + 16);
            const v16 query_24 = load<v16>(in_q + 24);
            const v8 query_40 = load<v8>(in_q + 40);
            const int64_t src = c.all_src[e];
            const float* in_k = c.k + int64_t(src) * 48;
            const v16 key_0 = load<v16>(in_k);
            const v8 key_16 = load<v8>(in_k + 16);
            const v16 key_24 = load<v16>(in_k + 24);
            const v8 key_40 = load<v8>(in_k + 40);
            const float s_h0 = hsum(key_0 * query_0) + hsum(key_16 * query_16);
            const float s_h1 = hsum(key_24 * query_24) + hsum(key_40 * query_40);
            const v2 s = v2{s_h0, s_h1};
            float* out_alpha = c.alpha + int64_t(e) * 2;
            store<v2>(out_alpha, s);
            share_max = maximum<v2>(share_max, s);
        }
        v2 share_total = v2{};
        v16 share_total_lanes = v16{};
        in_parts(c.all_indptr[n], e_end,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            across_edges<v16, 2>(part_begin, part_end,
                [&](auto zero, int32_t e) INLINE_LAMBDA {
                typedef decltype(zero) V;
                const V share_score = load<V>(c.alpha + int64_t(e) * 2);
                const V share_score_below = share_score - repeat<V>(share_max);
                const V share_power = exp(share_score_below);
                store<V>(c.alpha + int64_t(e) * 2, share_power);
                add_lanes(share_total_lanes, share_total, share_power);
            });
        }, share_total_lanes);
        share_total += fold_sum<v2>(share_total_lanes);
        const v2 share_inverse = 1.0f / share_total;
        across_edges<v16, 2>(c.all_indptr[n], e_end,
            [&](auto zero, int32_t e) INLINE_LAMBDA {
            typedef decltype(zero) V;
            const V share_power_read = load<V>(c.alpha + int64_t(e) * 2);
            const V share_share = share_power_read * repeat<V>(share_inverse);
            store<V>(c.alpha + int64_t(e) * 2, share_share);
        });
    }
}

}  // namespace

// the launch; see its slots for the order of the arguments
EXPORT int hetune_launch(void* const* pointers, const int64_t* counts, int threads) {
    Context c;
    c.node_blocks = static_cast<const int32_t*>(pointers[0]);
    c.all_indptr = static_cast<const int32_t*>(pointers[1]);
    c.all_dst_pair_of_edge = static_cast<const int32_t*>(pointers[2]);
    c.q = static_cast<float*>(pointers[3]);
    c.all_src = static_cast<const int32_t*>(pointers[4]);
    c.k = static_cast<float*>(pointers[5]);
    c.alpha = static_cast<float*>(pointers[6]);
    c.block_order = static_cast<const int32_t*>(pointers[7]);
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
