// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    const int32_t* node_types;
    float* skip;
    float* x;
    float* y;
    float* m;
    float* b;
    const int32_t* all_node_blocked_dst_block_ptr;
    const int32_t* all_node_blocked_dst_group_ptr;
    float* w;
    const int32_t* all_node_blocked_dst_group_etype;
    const int32_t* all_node_blocked_dst_rows;
    const int32_t* node_blocks;
    const int32_t* all_indptr;
    const int32_t* block_order;
    int64_t blocks;
    int64_t hubs;
};

// kernel_0_finish: what becomes of a row of p
static inline void kernel_0_finish(const Context& c, int64_t n, const float* row) {
    const v16 p_v2_0 = load<v16>(row);
    const v8 p_v2_16 = load<v8>(row + 16);
    const int64_t ntype = c.node_types[n];
    const float* in_skip = c.skip + ntype;
    const float gate = load<float>(in_skip);
    const float open = sigmoid(gate);
    const float closed = 1.0f - open;
    const v16 new_v2_0 = open * p_v2_0;
    const v8 new_v2_16 = open * p_v2_16;
    const float* in_x = c.x + int64_t(n) * 24;
    const v16 old_0 = load<v16>(in_x);
    const v8 old_16 = load<v8>(in_x + 16);
    const v16 kept_0 = closed * old_0;
    const v8 kept_16 = closed * old_16;
    const v16 both_0 = new_v2_0 + kept_0;
    const v8 both_16 = new_v2_16 + kept_16;
    float* out_y = c.y + int64_t(n) * 24;
    store<v16>(out_y, both_0);
    store<v8>(out_y + 16, both_16);
}

// kernel_0: M rows at a time
template <int M>
static inline void kernel_0_tile(const Context& c, const int32_t* rows, const float* w) {
    alignas(64) float active[M][24];
    for (int m = 0; m < M; ++m) {
        const float* raw = c.m + int64_t(rows[m]) * 24;
        store<v16>(active[m], gelu(load<v16>(raw)));
        store<v8>(active[m] + 16, gelu(load<v8>(raw + 16)));
    }
    const float* x[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        x[m] = active[m];
    }
    alignas(64) float done[M][24];
    v16 acc_0[M];
    v8 acc_16[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        acc_0[m] = v16{};
        acc_16[m] = v8{};
    }
    for (int k = 0; k < 24; ++k) {
        const float* w_k = w + k * 24;
        const v16 w_0 = load<v16>(w_k);
        const v8 w_16 = load<v8>(w_k + 16);
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            const float x_k = x[m][k];
            acc_0[m] += x_k * w_0;
            acc_16[m] += x_k * w_16;
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        float* out = done[m];
        const float* bias = c.b + int64_t(c.node_types[rows[m]]) * 24;
        const v16 out_0 = acc_0[m] + load<v16>(bias);
        const v8 out_16 = acc_16[m] + load<v8>(bias + 16);
        store(out, out_0);
        store(out + 16, out_16);
    }
    for (int m = 0; m < M; ++m) {
        kernel_0_finish(c, rows[m], done[m]);
    }
}

// y of p = gelu(m) @ w + b, for every node
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const int32_t* rows = c.all_node_blocked_dst_rows;
    const int32_t last_group = c.all_node_blocked_dst_block_ptr[block + 1];
    for (int32_t g = c.all_node_blocked_dst_block_ptr[block]; g < last_group; ++g) {
        const float* w = c.w + int64_t(c.all_node_blocked_dst_group_etype[g]) * 576;
        const int32_t stop = c.all_node_blocked_dst_group_ptr[g + 1];
        int32_t i = c.all_node_blocked_dst_group_ptr[g];
        while (i < stop) {
            const int32_t height = stop - i < 8 ? minimum(stop - i, 6) : 8;
            switch (height) {
                case 8: kernel_0_tile<8>(c, rows + i, w); break;
                case 6: kernel_0_tile<6>(c, rows + i, w); break;
                case 5: kernel_0_tile<5>(c, rows + i, w); break;
                case 4: kernel_0_tile<4>(c, rows + i, w); break;
                case 3: kernel_0_tile<3>(c, rows + i, w); break;
                case 2: kernel_0_tile<2>(c, rows + i, w); break;
                default: kernel_0_tile<1>(c, rows + i, w); break;
            }
            i += height;
        }
    }
    // nodes without an edge
    for (int32_t n = c.node_blocks[block]; n < c.node_blocks[block + 1]; ++n) {
        expect_row<24>(c.y + int64_t(minimum<int32_t>(n + 16, c.node_blocks[block + 1] - 1)) * 24);
        if (c.all_indptr[n] == c.all_indptr[n + 1]) {
            kernel_0_finish(c, n, c.b + int64_t(c.node_types[n]) * 24);
        }
    }
}

}  // namespace

// the launch; see its slots for the order of the arguments
EXPORT int hetune_launch(void* const* pointers, const int64_t* counts, int threads) {
    Context c;
    c.node_types = static_cast<const int32_t*>(pointers[0]);
    c.skip = static_cast<float*>(pointers[1]);
    c.x = static_cast<float*>(pointers[2]);
    c.y = static_cast<float*>(pointers[3]);
    c.m = static_cast<float*>(pointers[4]);
    c.b = static_cast<float*>(pointers[5]);
    c.all_node_blocked_dst_block_ptr = static_cast<const int32_t*>(pointers[6]);
    c.all_node_blocked_dst_group_ptr = static_cast<const int32_t*>(pointers[7]);
    c.w = static_cast<float*>(pointers[8]);
    c.all_node_blocked_dst_group_etype = static_cast<const int32_t*>(pointers[9]);
    c.all_node_blocked_dst_rows = static_cast<const int32_t*>(pointers[10]);
    c.node_blocks = static_cast<const int32_t*>(pointers[11]);
    c.all_indptr = static_cast<const int32_t*>(pointers[12]);
    c.block_order = static_cast<const int32_t*>(pointers[13]);
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
