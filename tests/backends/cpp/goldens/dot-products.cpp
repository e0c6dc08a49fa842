// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=8 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    float* x;
    float* y;
    const int32_t* all_node_blocked_block_ptr;
    const int32_t* all_node_blocked_group_ptr;
    float* w;
    const int32_t* all_node_blocked_group_etype;
    const int32_t* all_node_blocked_rows;
    const int32_t* block_order;
    int64_t blocks;
    int64_t hubs;
};

// kernel_0: M rows at a time
template <int M>
static inline void kernel_0_tile(const Context& c, const int32_t* rows, const float* w) {
    const float* x[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        x[m] = c.x + int64_t(rows[m]) * 126;
    }
    for (int m = 0; m < M; ++m) {
        for (int h = 0; h < 2; ++h) {
            for (int j = 0; j < 3; ++j) {
                const float* x_m = x[m] + h * 63;
                const float* w_j = w + (h * 3 + j) * 63;
                v8 products = v8{};
#pragma GCC unroll 8
                for (int k = 0; k < 56; k += 8) {
                    products += load<v8>(x_m + k) * load<v8>(w_j + k);
                }
                float total = hsum(products);
                total += hsum(load<v4>(x_m + 56) * load<v4>(w_j + 56));
                total += hsum(load<v2>(x_m + 60) * load<v2>(w_j + 60));
                total += hsum(load<float>(x_m + 62) * load<float>(w_j + 62));
                (c.y + int64_t(rows[m]) * 6)[h * 3 + j] = total;
            }
        }
    }
}

// y = x @ w, for every node
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const int32_t* rows = c.all_node_blocked_rows;
    const int32_t last_group = c.all_node_blocked_block_ptr[block + 1];
    for (int32_t g = c.all_node_blocked_block_ptr[block]; g < last_group; ++g) {
        const float* w = c.w + int64_t(c.all_node_blocked_group_etype[g]) * 378;
        // columns of w, each contiguous
        alignas(64) float columns[378];
        transpose<2, 63, 3>(w, columns);
        const int32_t stop = c.all_node_blocked_group_ptr[g + 1];
        int32_t i = c.all_node_blocked_group_ptr[g];
        while (i < stop) {
            const int32_t height = stop - i < 8 ? minimum(stop - i, 6) : 8;
            switch (height) {
                case 8: kernel_0_tile<8>(c, rows + i, columns); break;
                case 6: kernel_0_tile<6>(c, rows + i, columns); break;
                case 5: kernel_0_tile<5>(c, rows + i, columns); break;
                case 4: kernel_0_tile<4>(c, rows + i, columns); break;
                case 3: kernel_0_tile<3>(c, rows + i, columns); break;
                case 2: kernel_0_tile<2>(c, rows + i, columns); break;
                default: kernel_0_tile<1>(c, rows + i, columns); break;
            }
            i += height;
        }
    }
}

}  // namespace

// the launch; see its slots for the order of the arguments
EXPORT int hetune_launch(void* const* pointers, const int64_t* counts, int threads) {
    Context c;
    c.x = static_cast<float*>(pointers[0]);
    c.y = static_cast<float*>(pointers[1]);
    c.all_node_blocked_block_ptr = static_cast<const int32_t*>(pointers[2]);
    c.all_node_blocked_group_ptr = static_cast<const int32_t*>(pointers[3]);
    c.w = static_cast<float*>(pointers[4]);
    c.all_node_blocked_group_etype = static_cast<const int32_t*>(pointers[5]);
    c.all_node_blocked_rows = static_cast<const int32_t*>(pointers[6]);
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
