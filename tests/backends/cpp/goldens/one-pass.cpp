// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    const int32_t* node_blocks;
    float* room;
    const int32_t* all_indptr;
    const int32_t* b_dst_pair_indptr;
    const int32_t* b_indptr;
    const int32_t* b_node_dst_pair_indptr;
    const int32_t* b_dst_pair_of_edge;
    const int32_t* b_src;
    float* x;
    float* z;
    float* total;
    const int32_t* b_dst_pair_node;
    float* q;
    float* bias;
    const int32_t* a_indptr;
    const int32_t* a_src_pair_of_edge;
    float* k;
    float* v;
    float* c;
    float* y;
    const int32_t* a_dst;
    const int32_t* b_position;
    const int32_t* a_position;
    float* out;
    float* scratch;
    const int32_t* block_order;
    int64_t scratch_stride;
    int64_t room_start;
    int64_t z_start;
    int64_t blocks;
    int64_t hubs;
};

// room, total, y, z, for every node, if all scores are moderate
NOINLINE bool kernel_0_moderate(const Context& c, int64_t block) {
    const int64_t first = c.node_blocks[block];
    const int64_t stop = c.node_blocks[block + 1];
    for (int64_t n = first; n < stop; ++n) {
        if (c.all_indptr[n] != c.all_indptr[n + 1]) {
            store(c.room + int64_t(c.all_indptr[n]) * 2, v2{});
        }
    }
    if (c.b_node_dst_pair_indptr[first] < c.b_node_dst_pair_indptr[stop]) {
        int32_t e = c.b_indptr[first];
        const int32_t edges_stop = c.b_indptr[stop];
        const int32_t last = edges_stop - 1;
        int64_t p = c.b_node_dst_pair_indptr[first];
        const int64_t p_stop = c.b_node_dst_pair_indptr[stop];
        v16 sum_0 = v16{};
        v16 sum_16 = v16{};
        v16 sum_32 = v16{};
        v16 sum_48 = v16{};
        v2 shares = v2{};
        v2 share_total = v2{};
        double whole[68] = {};
        bool is_long = false;
        int32_t row_stop = e + minimum(c.b_dst_pair_indptr[p + 1] - e, part_rows);
        alignas(64) float powers[16];
        for (int64_t tile = e; tile < INT64_MAX; tile += 8) {
            const int32_t tile_stop = minimum<int64_t>(tile + 8, edges_stop);
            if (tile < edges_stop) {
                for (int i = 0; i < 8; ++i) {
                    const int32_t ahead = minimum<int64_t>(tile + 16 + i, last);
                    prefetch_row<64>(c.x + int64_t(c.b_src[ahead]) * 64);
                }
                v16 product_terms[16];
#pragma GCC unroll 8
                for (int i = 0; i < 8; ++i) {
                    const int32_t e = minimum<int64_t>(tile + i, last);
                    const int64_t pair = c.b_dst_pair_of_edge[e];
                    const float* in_q = c.q + int64_t(pair) * 64;
                    const v16 query_0 = load<v16>(in_q);
                    const v16 query_16 = load<v16>(in_q + 16);
                    const v16 query_32 = load<v16>(in_q + 32);
                    const v16 query_48 = load<v16>(in_q + 48);
                    const int64_t src = c.b_src[e];
                    const float* in_x = c.x + int64_t(src) * 64;
                    const v16 key_0 = load<v16>(in_x);
                    const v16 key_16 = load<v16>(in_x + 16);
                    const v16 key_32 = load<v16>(in_x + 32);
                    const v16 key_48 = load<v16>(in_x + 48);
                    product_terms[i * 2 + 0] = query_0 * key_0 + query_16 * key_16;
                    product_terms[i * 2 + 1] = query_32 * key_32 + query_48 * key_48;
                }
                const v16 product = fold_rows(product_terms);
                const v16 shift = lanes_of<v16, 2>([&](int i) INLINE_LAMBDA { return load<v2>(c.bias + int64_t(c.b_dst_pair_of_edge[minimum<int64_t>(tile + i, last)]) * 2); });
                const v16 s = product + shift;
                if (!are_moderate(s)) {
                    return false;
                }
                store(powers, exp(s));
            }
            while (true) {
                const int32_t until = minimum(row_stop, tile_stop);
                while (e < until) {
                    const v2 share = load<v2>(powers + (e - tile) * 2);
                    const int64_t src = c.b_src[e];
                    const float* in_x = c.x + int64_t(src) * 64;
                    const v16 row_v2_0 = load<v16>(in_x);
                    const v16 row_v2_16 = load<v16>(in_x + 16);
                    const v16 row_v2_32 = load<v16>(in_x + 32);
                    const v16 row_v2_48 = load<v16>(in_x + 48);
                    const v16 m_0 = share[0] * row_v2_0;
                    const v16 m_16 = share[0] * row_v2_16;
                    const v16 m_32 = share[1] * row_v2_32;
                    const v16 m_48 = share[1] * row_v2_48;
                    sum_0 += m_0;
                    sum_16 += m_16;
                    sum_32 += m_32;
                    sum_48 += m_48;
                    shares += share;
                    share_total += share;
                    ++e;
                }
                if (e != row_stop) {
                    break;
                }
                if (e != c.b_dst_pair_indptr[p + 1]) {
                    add_part(whole + 0, sum_0);
                    add_part(whole + 16, sum_16);
                    add_part(whole + 32, sum_32);
                    add_part(whole + 48, sum_48);
                    add_part(whole + 64, shares);
                    add_part(whole + 66, share_total);
                    sum_0 = v16{};
                    sum_16 = v16{};
                    sum_32 = v16{};
                    sum_48 = v16{};
                    shares = v2{};
                    share_total = v2{};
                    is_long = true;
                    row_stop = e + minimum(c.b_dst_pair_indptr[p + 1] - e, part_rows);
                    continue;
                }
                if (is_long) {
                    add_part(whole + 0, sum_0);
                    add_part(whole + 16, sum_16);
                    add_part(whole + 32, sum_32);
                    add_part(whole + 48, sum_48);
                    add_part(whole + 64, shares);
                    add_part(whole + 66, share_total);
                    sum_0 = rounded<v16>(whole + 0);
                    sum_16 = rounded<v16>(whole + 16);
                    sum_32 = rounded<v16>(whole + 32);
                    sum_48 = rounded<v16>(whole + 48);
                    shares = rounded<v2>(whole + 64);
                    share_total = rounded<v2>(whole + 66);
                    for (int i = 0; i < 68; ++i) {
                        whole[i] = 0;
                    }
                    is_long = false;
                }
                float* out_z = c.z + int64_t(p) * 64;
                store<v16>(out_z, sum_0);
                store<v16>(out_z + 16, sum_16);
                store<v16>(out_z + 32, sum_32);
                store<v16>(out_z + 48, sum_48);
                float* out_total = c.total + int64_t(p) * 2;
                store<v2>(out_total, shares);
                float* total_at = c.room + int64_t(c.all_indptr[c.b_dst_pair_node[p]]) * 2;
                store(total_at, load<v2>(total_at) + share_total);
                sum_0 = v16{};
                sum_16 = v16{};
                sum_32 = v16{};
                sum_48 = v16{};
                shares = v2{};
                share_total = v2{};
                if (++p == p_stop) {
                    break;
                }
                row_stop = e + minimum(c.b_dst_pair_indptr[p + 1] - e, part_rows);
            }
            if (p == p_stop) {
                break;
            }
        }
    }
    if (first < stop) {
        int32_t e = c.a_indptr[first];
        const int32_t edges_stop = c.a_indptr[stop];
        const int32_t last = edges_stop - 1;
        int64_t n = first;
        const int64_t n_stop = stop;
        v16 acc_0 = v16{};
        v16 acc_16 = v16{};
        v16 acc_32 = v16{};
        v16 acc_48 = v16{};
        v2 share_total_v2 = v2{};
        double whole[66] = {};
        bool is_long = false;
        int32_t row_stop = e + minimum(c.a_indptr[n + 1] - e, part_rows);
        alignas(64) float powers[16];
        for (int64_t tile = e; tile < INT64_MAX; tile += 8) {
            const int32_t tile_stop = minimum<int64_t>(tile + 8, edges_stop);
            if (tile < edges_stop) {
                for (int i = 0; i < 8; ++i) {
                    const int32_t ahead = minimum<int64_t>(tile + 16 + i, last);
                    prefetch_row<64>(c.k + int64_t(c.a_src_pair_of_edge[ahead]) * 64);
                    prefetch_row<64>(c.v + int64_t(c.a_src_pair_of_edge[ahead]) * 64);
                }
                v16 t_terms[16];
#pragma GCC unroll 8
                for (int i = 0; i < 8; ++i) {
                    const int32_t e = minimum<int64_t>(tile + i, last);
                    const int64_t pair = c.a_src_pair_of_edge[e];
                    const float* in_k = c.k + int64_t(pair) * 64;
                    const v16 near_0 = load<v16>(in_k);
                    const v16 near_16 = load<v16>(in_k + 16);
                    const v16 near_32 = load<v16>(in_k + 32);
                    const v16 near_48 = load<v16>(in_k + 48);
                    const int64_t dst = c.a_dst[e];
                    const float* in_x = c.x + int64_t(dst) * 64;
                    const v16 own_0 = load<v16>(in_x);
                    const v16 own_16 = load<v16>(in_x + 16);
                    const v16 own_32 = load<v16>(in_x + 32);
                    const v16 own_48 = load<v16>(in_x + 48);
                    t_terms[i * 2 + 0] = near_0 * own_0 + near_16 * own_16;
                    t_terms[i * 2 + 1] = near_32 * own_32 + near_48 * own_48;
                }
                const v16 t = fold_rows(t_terms);
                if (!are_moderate(t)) {
                    return false;
                }
                store(powers, exp(t));
            }
            while (true) {
                const int32_t until = minimum(row_stop, tile_stop);
                while (e < until) {
                    const v2 share_v2 = load<v2>(powers + (e - tile) * 2);
                    const int64_t pair = c.a_src_pair_of_edge[e];
                    const float* in_v = c.v + int64_t(pair) * 64;
                    const v16 row_v3_0 = load<v16>(in_v);
                    const v16 row_v3_16 = load<v16>(in_v + 16);
                    const v16 row_v3_32 = load<v16>(in_v + 32);
                    const v16 row_v3_48 = load<v16>(in_v + 48);
                    const v16 m_v2_0 = share_v2[0] * row_v3_0;
                    const v16 m_v2_16 = share_v2[0] * row_v3_16;
                    const v16 m_v2_32 = share_v2[1] * row_v3_32;
                    const v16 m_v2_48 = share_v2[1] * row_v3_48;
                    acc_0 += m_v2_0;
                    acc_16 += m_v2_16;
                    acc_32 += m_v2_32;
                    acc_48 += m_v2_48;
                    share_total_v2 += share_v2;
                    ++e;
                }
                if (e != row_stop) {
                    break;
                }
                if (e != c.a_indptr[n + 1]) {
                    add_part(whole + 0, acc_0);
                    add_part(whole + 16, acc_16);
                    add_part(whole + 32, acc_32);
                    add_part(whole + 48, acc_48);
                    add_part(whole + 64, share_total_v2);
                    acc_0 = v16{};
                    acc_16 = v16{};
                    acc_32 = v16{};
                    acc_48 = v16{};
                    share_total_v2 = v2{};
                    is_long = true;
                    row_stop = e + minimum(c.a_indptr[n + 1] - e, part_rows);
                    continue;
                }
                if (is_long) {
                    add_part(whole + 0, acc_0);
                    add_part(whole + 16, acc_16);
                    add_part(whole + 32, acc_32);
                    add_part(whole + 48, acc_48);
                    add_part(whole + 64, share_total_v2);
                    acc_0 = rounded<v16>(whole + 0);
                    acc_16 = rounded<v16>(whole + 16);
                    acc_32 = rounded<v16>(whole + 32);
                    acc_48 = rounded<v16>(whole + 48);
                    share_total_v2 = rounded<v2>(whole + 64);
                    for (int i = 0; i < 66; ++i) {
                        whole[i] = 0;
                    }
                    is_long = false;
                }
                if (c.all_indptr[n] != c.all_indptr[n + 1]) {
                    share_total_v2 += load<v2>(c.room + int64_t(c.all_indptr[n]) * 2);
                }
                const v2 share_inverse = share_total_v2 > v2{} ? 1.0f / share_total_v2 : v2{};
                const int32_t p_end = c.b_node_dst_pair_indptr[n + 1];
                for (int32_t p = c.b_node_dst_pair_indptr[n]; p < p_end; ++p) {
                    const float* in_z = c.z + int64_t(p) * 64;
                    const v16 sum_raw_0 = load<v16>(in_z);
                    const v16 sum_raw_16 = load<v16>(in_z + 16);
                    const v16 sum_raw_32 = load<v16>(in_z + 32);
                    const v16 sum_raw_48 = load<v16>(in_z + 48);
                    const v16 sum_share_0 = share_inverse[0] * sum_raw_0;
                    const v16 sum_share_16 = share_inverse[0] * sum_raw_16;
                    const v16 sum_share_32 = share_inverse[1] * sum_raw_32;
                    const v16 sum_share_48 = share_inverse[1] * sum_raw_48;
                    float* out_z_v2 = c.z + int64_t(p) * 64;
                    store<v16>(out_z_v2, sum_share_0);
                    store<v16>(out_z_v2 + 16, sum_share_16);
                    store<v16>(out_z_v2 + 32, sum_share_32);
                    store<v16>(out_z_v2 + 48, sum_share_48);
                    const float* in_total = c.total + int64_t(p) * 2;
                    const v2 shares_raw = load<v2>(in_total);
                    const v2 shares_share = share_inverse * shares_raw;
                    float* out_total_v2 = c.total + int64_t(p) * 2;
                    store<v2>(out_total_v2, shares_share);
                }
                const v16 acc_share_0 = share_inverse[0] * acc_0;
                const v16 acc_share_16 = share_inverse[0] * acc_16;
                const v16 acc_share_32 = share_inverse[1] * acc_32;
                const v16 acc_share_48 = share_inverse[1] * acc_48;
                const float* in_c = c.c + int64_t(n) * 64;
                const v16 old_0 = load<v16>(in_c);
                const v16 old_16 = load<v16>(in_c + 16);
                const v16 old_32 = load<v16>(in_c + 32);
                const v16 old_48 = load<v16>(in_c + 48);
                const v16 both_0 = old_0 + acc_share_0;
                const v16 both_16 = old_16 + acc_share_16;
                const v16 both_32 = old_32 + acc_share_32;
                const v16 both_48 = old_48 + acc_share_48;
                float* out_y = c.y + int64_t(n) * 64;
                store<v16>(out_y, both_0);
                store<v16>(out_y + 16, both_16);
                store<v16>(out_y + 32, both_32);
                store<v16>(out_y + 48, both_48);
                acc_0 = v16{};
                acc_16 = v16{};
                acc_32 = v16{};
                acc_48 = v16{};
                share_total_v2 = v2{};
                if (++n == n_stop) {
                    break;
                }
                row_stop = e + minimum(c.a_indptr[n + 1] - e, part_rows);
            }
            if (n == n_stop) {
                break;
            }
        }
    }
    return true;
}

// room, total, y, z, for every node
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const int64_t stop = c.node_blocks[block + 1];
    const int64_t last_edge_b = c.b_indptr[stop] - 1;
    const int64_t last_edge_a = c.a_indptr[stop] - 1;
    const int64_t last_edge_all = c.all_indptr[stop] - 1;
    for (int64_t n = c.node_blocks[block]; n < stop; ++n) {
        const int64_t ahead = minimum<int64_t>(n + 16, stop - 1);
        expect_row<64>(c.y + int64_t(ahead) * 64);
        v16 acc_0 = v16{};
        v16 acc_16 = v16{};
        v16 acc_32 = v16{};
        v16 acc_48 = v16{};
        v2 share_max = splat<v2>(-infinity);
        const int32_t e_end = c.b_indptr[n + 1];
        for (int32_t e = c.b_indptr[n]; e < e_end; ++e) {
            const int64_t ahead = minimum<int64_t>(e + 16, last_edge_b);
            prefetch_row<64>(c.x + int64_t(c.b_src[ahead]) * 64);
            const int64_t pair = c.b_dst_pair_of_edge[e];
            const float* in_q = c.q + int64_t(pair) * 64;
            const v16 query_0 = load<v16>(in_q);
            const v16 query_16 = load<v16>(in_q + 16);
            const v16 query_32 = load<v16>(in_q + 32);
            const v16 query_48 = load<v16>(in_q + 48);
            const int64_t src = c.b_src[e];
            const float* in_x = c.x + int64_t(src) * 64;
            const v16 key_0 = load<v16>(in_x);
            const v16 key_16 = load<v16>(in_x + 16);
            const v16 key_32 = load<v16>(in_x + 32);
            const v16 key_48 = load<v16>(in_x + 48);
            const float product_h0 = hsum(query_0 * key_0 + query_16 * key_16);
            const float product_h1 = hsum(query_32 * key_32 + query_48 * key_48);
            const v2 product = v2{product_h0, product_h1};
            const float* in_bias = c.bias + int64_t(pair) * 2;
            const v2 shift = load<v2>(in_bias);
            const v2 s = product + shift;
            const int64_t position = c.b_position[e];
            float* out_room = c.room + int64_t(position) * 2;
            store<v2>(out_room, s);
            share_max = maximum<v2>(share_max, s);
        }
        const int32_t e_end_v2 = c.a_indptr[n + 1];
        const float* in_x_v2 = c.x + int64_t(n) * 64;
        const v16 own_0 = load<v16>(in_x_v2);
        const v16 own_16 = load<v16>(in_x_v2 + 16);
        const v16 own_32 = load<v16>(in_x_v2 + 32);
        const v16 own_48 = load<v16>(in_x_v2 + 48);
        for (int32_t e = c.a_indptr[n]; e < e_end_v2; ++e) {
            const int64_t ahead = minimum<int64_t>(e + 16, last_edge_a);
            prefetch_row<64>(c.k + int64_t(c.a_src_pair_of_edge[ahead]) * 64);
            const int64_t pair_v2 = c.a_src_pair_of_edge[e];
            const float* in_k = c.k + int64_t(pair_v2) * 64;
            const v16 near_0 = load<v16>(in_k);
            const v16 near_16 = load<v16>(in_k + 16);
            const v16 near_32 = load<v16>(in_k + 32);
            const v16 near_48 = load<v16>(in_k + 48);
            const float t_h0 = hsum(near_0 * own_0 + near_16 * own_16);
            const float t_h1 = hsum(near_32 * own_32 + near_48 * own_48);
            const v2 t = v2{t_h0, t_h1};
            const int64_t position_v2 = c.a_position[e];
            float* out_room_v2 = c.room + int64_t(position_v2) * 2;
            store<v2>(out_room_v2, t);
            share_max = maximum<v2>(share_max, t);
        }
        v2 share_total = v2{};
        const int32_t e_end_v3 = c.all_indptr[n + 1];
        v16 share_total_lanes = v16{};
        in_parts(c.all_indptr[n], e_end_v3,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            across_edges<v16, 2>(part_begin, part_end,
                [&](auto zero, int32_t e) INLINE_LAMBDA {
                typedef decltype(zero) V;
                const V share_score = load<V>(c.room + int64_t(e) * 2);
                const V share_score_below = share_score - repeat<V>(share_max);
                const V share_power = exp(share_score_below);
                store<V>(c.room + int64_t(e) * 2, share_power);
                add_lanes(share_total_lanes, share_total, share_power);
            });
        }, share_total_lanes);
        share_total += fold_sum<v2>(share_total_lanes);
        const v2 share_inverse = 1.0f / share_total;
        across_edges<v16, 2>(c.all_indptr[n], e_end_v3,
            [&](auto zero, int32_t e) INLINE_LAMBDA {
            typedef decltype(zero) V;
            const V share_power_read = load<V>(c.room + int64_t(e) * 2);
            const V share_share = share_power_read * repeat<V>(share_inverse);
            store<V>(c.room + int64_t(e) * 2, share_share);
        });
        const int32_t p_end = c.b_node_dst_pair_indptr[n + 1];
        for (int32_t p = c.b_node_dst_pair_indptr[n]; p < p_end; ++p) {
            v16 sum_0 = v16{};
            v16 sum_16 = v16{};
            v16 sum_32 = v16{};
            v16 sum_48 = v16{};
            v2 shares = v2{};
            const int32_t e_end_v4 = c.b_dst_pair_indptr[p + 1];
            in_parts(c.b_dst_pair_indptr[p], e_end_v4,
                [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
                for (int32_t e = part_begin; e < part_end; ++e) {
                    const int64_t ahead = minimum<int64_t>(e + 16, last_edge_b);
                    prefetch_row<64>(c.x + int64_t(c.b_src[ahead]) * 64);
                    const int64_t position_v3 = c.b_position[e];
                    const float* in_room = c.room + int64_t(position_v3) * 2;
                    const v2 share = load<v2>(in_room);
                    const int64_t src_v2 = c.b_src[e];
                    const float* in_x_v3 = c.x + int64_t(src_v2) * 64;
                    const v16 row_v2_0 = load<v16>(in_x_v3);
                    const v16 row_v2_16 = load<v16>(in_x_v3 + 16);
                    const v16 row_v2_32 = load<v16>(in_x_v3 + 32);
                    const v16 row_v2_48 = load<v16>(in_x_v3 + 48);
                    const v16 m_0 = share[0] * row_v2_0;
                    const v16 m_16 = share[0] * row_v2_16;
                    const v16 m_32 = share[1] * row_v2_32;
                    const v16 m_48 = share[1] * row_v2_48;
                    sum_0 += m_0;
                    sum_16 += m_16;
                    sum_32 += m_32;
                    sum_48 += m_48;
                    shares += share;
                }
            }, shares, sum_0, sum_16, sum_32, sum_48);
            float* out_z = c.z + int64_t(p) * 64;
            store<v16>(out_z, sum_0);
            store<v16>(out_z + 16, sum_16);
            store<v16>(out_z + 32, sum_32);
            store<v16>(out_z + 48, sum_48);
            float* out_total = c.total + int64_t(p) * 2;
            store<v2>(out_total, shares);
        }
        in_parts(c.a_indptr[n], e_end_v2,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            for (int32_t e = part_begin; e < part_end; ++e) {
                const int64_t ahead = minimum<int64_t>(e + 16, last_edge_a);
                prefetch_row<64>(c.v + int64_t(c.a_src_pair_of_edge[ahead]) * 64);
                const int64_t position_v4 = c.a_position[e];
                const float* in_room_v2 = c.room + int64_t(position_v4) * 2;
                const v2 share_v2 = load<v2>(in_room_v2);
                const int64_t pair_v3 = c.a_src_pair_of_edge[e];
                const float* in_v = c.v + int64_t(pair_v3) * 64;
                const v16 row_v3_0 = load<v16>(in_v);
                const v16 row_v3_16 = load<v16>(in_v + 16);
                const v16 row_v3_32 = load<v16>(in_v + 32);
                const v16 row_v3_48 = load<v16>(in_v + 48);
                const v16 m_v2_0 = share_v2[0] * row_v3_0;
                const v16 m_v2_16 = share_v2[0] * row_v3_16;
                const v16 m_v2_32 = share_v2[1] * row_v3_32;
                const v16 m_v2_48 = share_v2[1] * row_v3_48;
                acc_0 += m_v2_0;
                acc_16 += m_v2_16;
                acc_32 += m_v2_32;
                acc_48 += m_v2_48;
            }
        }, acc_0, acc_16, acc_32, acc_48);
        const float* in_c = c.c + int64_t(n) * 64;
        const v16 old_0 = load<v16>(in_c);
        const v16 old_16 = load<v16>(in_c + 16);
        const v16 old_32 = load<v16>(in_c + 32);
        const v16 old_48 = load<v16>(in_c + 48);
        const v16 both_0 = old_0 + acc_0;
        const v16 both_16 = old_16 + acc_16;
        const v16 both_32 = old_32 + acc_32;
        const v16 both_48 = old_48 + acc_48;
        float* out_y = c.y + int64_t(n) * 64;
        store<v16>(out_y, both_0);
        store<v16>(out_y + 16, both_16);
        store<v16>(out_y + 32, both_32);
        store<v16>(out_y + 48, both_48);
    }
}

// out, for every dst_pair of group 'b'
NOINLINE void kernel_1(const Context& c, int64_t block) {
    const int64_t stop = c.b_node_dst_pair_indptr[c.node_blocks[block + 1]];
    for (int64_t p = c.b_node_dst_pair_indptr[c.node_blocks[block]]; p < stop; ++p) {
        const int64_t ahead = minimum<int64_t>(p + 16, stop - 1);
        expect_row<64>(c.out + int64_t(ahead) * 64);
        const float* in_z = c.z + int64_t(p) * 64;
        const v16 row_v2_0 = load<v16>(in_z);
        const v16 row_v2_16 = load<v16>(in_z + 16);
        const v16 row_v2_32 = load<v16>(in_z + 32);
        const v16 row_v2_48 = load<v16>(in_z + 48);
        float* out_out = c.out + int64_t(p) * 64;
        store<v16>(out_out, row_v2_0);
        store<v16>(out_out + 16, row_v2_16);
        store<v16>(out_out + 32, row_v2_32);
        store<v16>(out_out + 48, row_v2_48);
    }
}

}  // namespace

// the launch; see its slots for the order of the arguments
EXPORT int hetune_launch(void* const* pointers, const int64_t* counts, int threads) {
    Context c;
    c.node_blocks = static_cast<const int32_t*>(pointers[0]);
    c.room = static_cast<float*>(pointers[1]);
    c.all_indptr = static_cast<const int32_t*>(pointers[2]);
    c.b_dst_pair_indptr = static_cast<const int32_t*>(pointers[3]);
    c.b_indptr = static_cast<const int32_t*>(pointers[4]);
    c.b_node_dst_pair_indptr = static_cast<const int32_t*>(pointers[5]);
    c.b_dst_pair_of_edge = static_cast<const int32_t*>(pointers[6]);
    c.b_src = static_cast<const int32_t*>(pointers[7]);
    c.x = static_cast<float*>(pointers[8]);
    c.z = static_cast<float*>(pointers[9]);
    c.total = static_cast<float*>(pointers[10]);
    c.b_dst_pair_node = static_cast<const int32_t*>(pointers[11]);
    c.q = static_cast<float*>(pointers[12]);
    c.bias = static_cast<float*>(pointers[13]);
    c.a_indptr = static_cast<const int32_t*>(pointers[14]);
    c.a_src_pair_of_edge = static_cast<const int32_t*>(pointers[15]);
    c.k = static_cast<float*>(pointers[16]);
    c.v = static_cast<float*>(pointers[17]);
    c.c = static_cast<float*>(pointers[18]);
    c.y = static_cast<float*>(pointers[19]);
    c.a_dst = static_cast<const int32_t*>(pointers[20]);
    c.b_position = static_cast<const int32_t*>(pointers[21]);
    c.a_position = static_cast<const int32_t*>(pointers[22]);
    c.out = static_cast<float*>(pointers[23]);
    c.scratch = static_cast<float*>(pointers[24]);
    c.block_order = static_cast<const int32_t*>(pointers[25]);
    c.scratch_stride = counts[0];
    c.room_start = counts[1];
    c.z_start = counts[2];
    c.blocks = counts[3];
    c.hubs = counts[4];
    int64_t blocks = c.blocks;
    const Context& shared = c;
    const bool overflowed =
        in_turns(blocks, c.hubs, threads, [&](int64_t turn) {
        const int64_t block = c.block_order[turn];
        // scratch of this thread, as if it held the rows of all blocks
        Context c = shared;
        float* own = c.scratch + omp_get_thread_num() * c.scratch_stride;
        c.room = own + c.room_start - int64_t(c.all_indptr[c.node_blocks[block]]) * 2;
        c.z = own + c.z_start - int64_t(c.b_node_dst_pair_indptr[c.node_blocks[block]]) * 64;
        if (!kernel_0_moderate(c, block)) {
            kernel_0(c, block);
        }
        kernel_1(c, block);
    });
    return overflowed || has_overflowed();
}
