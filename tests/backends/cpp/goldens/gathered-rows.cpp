// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    const int32_t* all_src_pair_node;
    float* x;
    float* t;
    const int32_t* all_src_pair_block_ptr;
    const int32_t* all_src_pair_group_ptr;
    float* w;
    const int32_t* all_src_pair_group_etype;
    const int32_t* all_src_pair_rows;
    int64_t row_blocks;
};

// kernel_0: M rows at a time
template <int M>
static inline void kernel_0_tile(
        const Context& c, const int32_t* rows, const float* w, int32_t ahead) {
    const float* x[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        x[m] = c.x + int64_t(c.all_src_pair_node[rows[m]]) * 128;
    }
    const float* next[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        next[m] = c.x + int64_t(c.all_src_pair_node[rows[(m < ahead ? M + m : m)]]) * 128;
    }
    for (int h = 0; h < 2; ++h) {
        for (int column = 0; column < 128; column += 64) {
            v16 acc_0[M];
            v16 acc_16[M];
            v16 acc_32[M];
            v16 acc_48[M];
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                acc_0[m] = v16{};
                acc_16[m] = v16{};
                acc_32[m] = v16{};
                acc_48[m] = v16{};
            }
            for (int part = 0; part < 64; part += 16) {
                if (column == 0) {
#pragma GCC unroll 16
                    for (int m = 0; m < M; ++m) {
                        __builtin_prefetch(next[m] + h * 64 + part);
                        __builtin_prefetch(c.t + int64_t(rows[m]) * 320 + h * 160 + part, 1);
                        __builtin_prefetch(c.t + int64_t(rows[m]) * 320 + h * 160 + part + 64, 1);
                        if (part < 32) {
                            __builtin_prefetch(c.t + int64_t(rows[m]) * 320 + h * 160 + part + 128, 1);
                        }
                    }
                }
                for (int k = part; k < part + 16; ++k) {
                    const float* w_k = w + (h * 64 + k) * 160 + column;
                    const v16 w_0 = load<v16>(w_k);
                    const v16 w_16 = load<v16>(w_k + 16);
                    const v16 w_32 = load<v16>(w_k + 32);
                    const v16 w_48 = load<v16>(w_k + 48);
#pragma GCC unroll 16
                    for (int m = 0; m < M; ++m) {
                        const float x_k = x[m][h * 64 + k];
                        acc_0[m] += x_k * w_0;
                        acc_16[m] += x_k * w_16;
                        acc_32[m] += x_k * w_32;
                        acc_48[m] += x_k * w_48;
                    }
                }
            }
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                float* out = c.t + int64_t(rows[m]) * 320 + h * 160 + column;
                const v16 out_0 = acc_0[m];
                const v16 out_16 = acc_16[m];
                const v16 out_32 = acc_32[m];
                const v16 out_48 = acc_48[m];
                store(out, out_0);
                store(out + 16, out_16);
                store(out + 32, out_32);
                store(out + 48, out_48);
            }
        }
        {
            v16 acc_128[M];
            v16 acc_144[M];
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                acc_128[m] = v16{};
                acc_144[m] = v16{};
            }
            for (int k = 0; k < 64; ++k) {
                const float* w_k = w + (h * 64 + k) * 160;
                const v16 w_128 = load<v16>(w_k + 128);
                const v16 w_144 = load<v16>(w_k + 144);
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    const float x_k = x[m][h * 64 + k];
                    acc_128[m] += x_k * w_128;
                    acc_144[m] += x_k * w_144;
                }
            }
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                float* out = c.t + int64_t(rows[m]) * 320 + h * 160;
                const v16 out_128 = acc_128[m];
                const v16 out_144 = acc_144[m];
                store(out + 128, out_128);
                store(out + 144, out_144);
            }
        }
    }
}

// t = x[src] @ w, for every src_pair
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const int32_t* rows = c.all_src_pair_rows;
    const int32_t last_group = c.all_src_pair_block_ptr[block + 1];
    for (int32_t g = c.all_src_pair_block_ptr[block]; g < last_group; ++g) {
        const float* w = c.w + int64_t(c.all_src_pair_group_etype[g]) * 20480;
        const int32_t stop = c.all_src_pair_group_ptr[g + 1];
        int32_t i = c.all_src_pair_group_ptr[g];
        while (i < stop) {
            const int32_t height = minimum(stop - i, 5);
            switch (height) {
                case 5: kernel_0_tile<5>(c, rows + i, w, stop - i - height); break;
                case 4: kernel_0_tile<4>(c, rows + i, w, stop - i - height); break;
                case 3: kernel_0_tile<3>(c, rows + i, w, stop - i - height); break;
                case 2: kernel_0_tile<2>(c, rows + i, w, stop - i - height); break;
                default: kernel_0_tile<1>(c, rows + i, w, stop - i - height); break;
            }
            i += height;
        }
    }
}

}  // namespace

// the launch; see its slots for the order of the arguments
EXPORT int hetune_launch(void* const* pointers, const int64_t* counts, int threads) {
    Context c;
    c.all_src_pair_node = static_cast<const int32_t*>(pointers[0]);
    c.x = static_cast<float*>(pointers[1]);
    c.t = static_cast<float*>(pointers[2]);
    c.all_src_pair_block_ptr = static_cast<const int32_t*>(pointers[3]);
    c.all_src_pair_group_ptr = static_cast<const int32_t*>(pointers[4]);
    c.w = static_cast<float*>(pointers[5]);
    c.all_src_pair_group_etype = static_cast<const int32_t*>(pointers[6]);
    c.all_src_pair_rows = static_cast<const int32_t*>(pointers[7]);
    c.row_blocks = counts[0];
    int64_t blocks = c.row_blocks;
    const bool overflowed =
        in_turns(blocks, 0, threads, [&](int64_t block) {
        kernel_0(c, block);
    });
    return overflowed || has_overflowed();
}
