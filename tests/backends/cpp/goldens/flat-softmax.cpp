// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    const int32_t* node_blocks;
    const int32_t* all_node_dst_pair_indptr;
    float* q;
    float* near;
    const int32_t* all_indptr;
    const int32_t* all_dst_pair_of_edge;
    const int32_t* all_src_pair_of_edge;
    float* far;
    float* slope;
    float* room;
    const int32_t* b_node_dst_pair_indptr;
    const int32_t* b_dst_pair_indptr;
    const int32_t* b_indptr;
    const int32_t* b_position;
    const int32_t* b_src;
    float* x;
    float* z;
    const int32_t* a_indptr;
    const int32_t* a_position;
    const int32_t* a_src_pair_of_edge;
    float* v;
    float* c;
    float* y;
    float* out;
    float* scratch;
    const int32_t* block_order;
    int64_t scratch_stride;
    int64_t near_start;
    int64_t room_start;
    int64_t z_start;
    int64_t blocks;
    int64_t hubs;
};

// near, for every dst_pair
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const int64_t stop = c.all_node_dst_pair_indptr[c.node_blocks[block + 1]];
    for (int64_t p = c.all_node_dst_pair_indptr[c.node_blocks[block]]; p < stop; ++p) {
        const float* in_q = c.q + int64_t(p) * 2;
        const v2 own = load<v2>(in_q);
        float* out_near = c.near + int64_t(p) * 2;
        store<v2>(out_near, own);
    }
}

// y, z, for every node
NOINLINE void kernel_1_sums(const Context& c, int64_t block) {
    const int64_t stop = c.node_blocks[block + 1];
    const int64_t last_edge_all = c.all_indptr[stop] - 1;
    const int64_t last_edge_b = c.b_indptr[stop] - 1;
    const int64_t last_edge_a = c.a_indptr[stop] - 1;
    for (int64_t n = c.node_blocks[block]; n < stop; ++n) {
        const int64_t ahead = minimum<int64_t>(n + 16, stop - 1);
        expect_row<64>(c.y + int64_t(ahead) * 64);
        v16 acc_0 = v16{};
        v16 acc_16 = v16{};
        v16 acc_32 = v16{};
        v16 acc_48 = v16{};
        v2 share_total = v2{};
        const int32_t e_end = c.all_indptr[n + 1];
        v16 share_total_lanes = v16{};
        in_parts(c.all_indptr[n], e_end,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            across_edges<v16, 2>(part_begin, part_end,
                [&](auto zero, int32_t e) INLINE_LAMBDA {
                typedef decltype(zero) V;
                const V share_power = load<V>(c.room + int64_t(e) * 2);
                add_lanes(share_total_lanes, share_total, share_power);
            });
        }, share_total_lanes);
        share_total += fold_sum<v2>(share_total_lanes);
        const v2 share_inverse = 1.0f / share_total;
        const int32_t p_end = c.b_node_dst_pair_indptr[n + 1];
        for (int32_t p = c.b_node_dst_pair_indptr[n]; p < p_end; ++p) {
            v16 sum_0 = v16{};
            v16 sum_16 = v16{};
            v16 sum_32 = v16{};
            v16 sum_48 = v16{};
            const int32_t e_end_v2 = c.b_dst_pair_indptr[p + 1];
            in_parts(c.b_dst_pair_indptr[p], e_end_v2,
                [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
                for (int32_t e = part_begin; e < part_end; ++e) {
                    const int64_t ahead = minimum<int64_t>(e + 16, last_edge_b);
                    prefetch_row<64>(c.x + int64_t(c.b_src[ahead]) * 64);
                    const int64_t position = c.b_position[e];
                    const float* in_room = c.room + int64_t(position) * 2;
                    const v2 share_power_v2 = load<v2>(in_room);
                    const v2 share = share_power_v2 * share_inverse;
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
                }
            }, sum_0, sum_16, sum_32, sum_48);
            float* out_z = c.z + int64_t(p) * 64;
            store<v16>(out_z, sum_0);
            store<v16>(out_z + 16, sum_16);
            store<v16>(out_z + 32, sum_32);
            store<v16>(out_z + 48, sum_48);
        }
        const int32_t e_end_v3 = c.a_indptr[n + 1];
        in_parts(c.a_indptr[n], e_end_v3,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            for (int32_t e = part_begin; e < part_end; ++e) {
                const int64_t ahead = minimum<int64_t>(e + 16, last_edge_a);
                prefetch_row<64>(c.v + int64_t(c.a_src_pair_of_edge[ahead]) * 64);
                const int64_t position_v2 = c.a_position[e];
                const float* in_room_v2 = c.room + int64_t(position_v2) * 2;
                const v2 share_power_v3 = load<v2>(in_room_v2);
                const v2 share_v2 = share_power_v3 * share_inverse;
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

// room, y, z, for every node, if all scores are moderate
NOINLINE bool kernel_1_moderate(const Context& c, int64_t block) {
    {
        v2 largest = splat<v2>(-infinity);
        v2 total = v2{};
        v16 largest_lanes = splat<v16>(-infinity);
        v16 total_lanes = v16{};
        in_parts(c.all_indptr[c.node_blocks[block]], c.all_indptr[c.node_blocks[block + 1]],
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            across_edges<v16, 2>(part_begin, part_end,
                [&](auto zero, int32_t e) INLINE_LAMBDA {
                typedef decltype(zero) V;
                const V to = gather<V, 2>(c.near, c.all_dst_pair_of_edge + e);
                const V of = gather<V, 2>(c.far, c.all_src_pair_of_edge + e);
                const V both = to + of;
                const V active = leaky_relu(both, 0.2f);
                const V times = repeat<V>(load<v2>(c.slope));
                const V s = active * times;
                const V size = magnitude(s);
                max_lanes(largest_lanes, largest, size);
                const V power = exp(s);
                add_lanes(total_lanes, total, power);
                store<V>(c.room + int64_t(e) * 2, power);
            });
        }, total_lanes);
        largest = maximum<v2>(largest, fold_max<v2>(largest_lanes));
        total += fold_sum<v2>(total_lanes);
        if (!(fold_max<float>(largest) <= most_moderate && hsum(total) >= 0.0f)) {
            return false;
        }
    }
    kernel_1_sums(c, block);
    return true;
}

// room, y, z, for every node
NOINLINE void kernel_1(const Context& c, int64_t block) {
    const int64_t stop = c.node_blocks[block + 1];
    const int64_t last_edge_all = c.all_indptr[stop] - 1;
    const int64_t last_edge_b = c.b_indptr[stop] - 1;
    const int64_t last_edge_a = c.a_indptr[stop] - 1;
    for (int64_t n = c.node_blocks[block]; n < stop; ++n) {
        const int64_t ahead = minimum<int64_t>(n + 16, stop - 1);
        expect_row<64>(c.y + int64_t(ahead) * 64);
        v16 acc_0 = v16{};
        v16 acc_16 = v16{};
        v16 acc_32 = v16{};
        v16 acc_48 = v16{};
        v2 share_max = splat<v2>(-infinity);
        const int32_t e_end = c.all_indptr[n + 1];
        v16 share_max_lanes = splat<v16>(-infinity);
        across_edges<v16, 2>(c.all_indptr[n], e_end,
            [&](auto zero, int32_t e) INLINE_LAMBDA {
            typedef decltype(zero) V;
            const V to = gather<V, 2>(c.near, c.all_dst_pair_of_edge + e);
            const V of = gather<V, 2>(c.far, c.all_src_pair_of_edge + e);
            const V both = to + of;
            const V active = leaky_relu(both, 0.2f);
            const V times = repeat<V>(load<v2>(c.slope));
            const V s = active * times;
            store<V>(c.room + int64_t(e) * 2, s);
            max_lanes(share_max_lanes, share_max, s);
        });
        share_max = maximum<v2>(share_max, fold_max<v2>(share_max_lanes));
        v2 share_total = v2{};
        v16 share_total_lanes = v16{};
        in_parts(c.all_indptr[n], e_end,
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
        across_edges<v16, 2>(c.all_indptr[n], e_end,
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
            const int32_t e_end_v2 = c.b_dst_pair_indptr[p + 1];
            in_parts(c.b_dst_pair_indptr[p], e_end_v2,
                [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
                for (int32_t e = part_begin; e < part_end; ++e) {
                    const int64_t ahead = minimum<int64_t>(e + 16, last_edge_b);
                    prefetch_row<64>(c.x + int64_t(c.b_src[ahead]) * 64);
                    const int64_t position = c.b_position[e];
                    const float* in_room = c.room + int64_t(position) * 2;
                    const v2 share = load<v2>(in_room);
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
                }
            }, sum_0, sum_16, sum_32, sum_48);
            float* out_z = c.z + int64_t(p) * 64;
            store<v16>(out_z, sum_0);
            store<v16>(out_z + 16, sum_16);
            store<v16>(out_z + 32, sum_32);
            store<v16>(out_z + 48, sum_48);
        }
        const int32_t e_end_v3 = c.a_indptr[n + 1];
        in_parts(c.a_indptr[n], e_end_v3,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            for (int32_t e = part_begin; e < part_end; ++e) {
                const int64_t ahead = minimum<int64_t>(e + 16, last_edge_a);
                prefetch_row<64>(c.v + int64_t(c.a_src_pair_of_edge[ahead]) * 64);
                const int64_t position_v2 = c.a_position[e];
                const float* in_room_v2 = c.room + int64_t(position_v2) * 2;
                const v2 share_v2 = load<v2>(in_room_v2);
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
            }
        }, acc_0, acc_16, acc_32, acc_48);
        const float* in_c = c.c + int64_t(n) * 64;
        const v16 old_0 = load<v16>(in_c);
        const v16 old_16 = load<v16>(in_c + 16);
        const v16 old_32 = load<v16>(in_c + 32);
        const v16 old_48 = load<v16>(in_c + 48);
        const v16 both_v2_0 = old_0 + acc_0;
        const v16 both_v2_16 = old_16 + acc_16;
        const v16 both_v2_32 = old_32 + acc_32;
        const v16 both_v2_48 = old_48 + acc_48;
        float* out_y = c.y + int64_t(n) * 64;
        store<v16>(out_y, both_v2_0);
        store<v16>(out_y + 16, both_v2_16);
        store<v16>(out_y + 32, both_v2_32);
        store<v16>(out_y + 48, both_v2_48);
    }
}

// out, for every dst_pair of group 'b'
NOINLINE void kernel_2(const Context& c, int64_t block) {
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
    c.all_node_dst_pair_indptr = static_cast<const int32_t*>(pointers[1]);
    c.q = static_cast<float*>(pointers[2]);
    c.near = static_cast<float*>(pointers[3]);
    c.all_indptr = static_cast<const int32_t*>(pointers[4]);
    c.all_dst_pair_of_edge = static_cast<const int32_t*>(pointers[5]);
    c.all_src_pair_of_edge = static_cast<const int32_t*>(pointers[6]);
    c.far = static_cast<float*>(pointers[7]);
    c.slope = static_cast<float*>(pointers[8]);
    c.room = static_cast<float*>(pointers[9]);
    c.b_node_dst_pair_indptr = static_cast<const int32_t*>(pointers[10]);
    c.b_dst_pair_indptr = static_cast<const int32_t*>(pointers[11]);
    c.b_indptr = static_cast<const int32_t*>(pointers[12]);
    c.b_position = static_cast<const int32_t*>(pointers[13]);
    c.b_src = static_cast<const int32_t*>(pointers[14]);
    c.x = static_cast<float*>(pointers[15]);
    c.z = static_cast<float*>(pointers[16]);
    c.a_indptr = static_cast<const int32_t*>(pointers[17]);
    c.a_position = static_cast<const int32_t*>(pointers[18]);
    c.a_src_pair_of_edge = static_cast<const int32_t*>(pointers[19]);
    c.v = static_cast<float*>(pointers[20]);
    c.c = static_cast<float*>(pointers[21]);
    c.y = static_cast<float*>(pointers[22]);
    c.out = static_cast<float*>(pointers[23]);
    c.scratch = static_cast<float*>(pointers[24]);
    c.block_order = static_cast<const int32_t*>(pointers[25]);
    c.scratch_stride = counts[0];
    c.near_start = counts[1];
    c.room_start = counts[2];
    c.z_start = counts[3];
    c.blocks = counts[4];
    c.hubs = counts[5];
    int64_t blocks = c.blocks;
    const Context& shared = c;
    const bool overflowed =
        in_turns(blocks, c.hubs, threads, [&](int64_t turn) {
        const int64_t block = c.block_order[turn];
        // scratch of this thread, as if it held the rows of all blocks
        Context c = shared;
        float* own = c.scratch + omp_get_thread_num() * c.scratch_stride;
        c.near = own + c.near_start - int64_t(c.all_node_dst_pair_indptr[c.node_blocks[block]]) * 2;
        c.room = own + c.room_start - int64_t(c.all_indptr[c.node_blocks[block]]) * 2;
        c.z = own + c.z_start - int64_t(c.b_node_dst_pair_indptr[c.node_blocks[block]]) * 64;
        kernel_0(c, block);
        if (!kernel_1_moderate(c, block)) {
            kernel_1(c, block);
        }
        kernel_2(c, block);
    });
    return overflowed || has_overflowed();
}
