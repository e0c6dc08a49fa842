// schedule block_nodes=1024 row_tile=6 col_vectors=2 lanes=8 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    float* x;
    float* y;
    float* bias;
    const int32_t* node_blocks;
    float* root;
    const int32_t* d_dst_pair_indptr;
    const int32_t* d_src;
    const int32_t* d_dst_pair_node;
    float* scale;
    const int32_t* d_dst_pair_blocked_block_ptr;
    const int32_t* d_dst_pair_blocked_group_ptr;
    float* w;
    const int32_t* d_dst_pair_blocked_group_etype;
    const int32_t* d_dst_pair_blocked_rows;
    const int32_t* block_order;
    int64_t blocks;
    int64_t hubs;
};

// kernel_0: M rows at a time
template <int M>
static inline void kernel_0_tile(const Context& c, int32_t first, const float* w, int32_t ahead) {
    const float* x[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        x[m] = c.x + int64_t(first + m) * 64;
    }
    const float* next[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        next[m] = c.x + int64_t(first + (m < ahead ? M + m : m)) * 64;
    }
    for (int column = 0; column < 64; column += 16) {
        v8 acc_0[M];
        v8 acc_8[M];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            acc_0[m] = v8{};
            acc_8[m] = v8{};
        }
        for (int part = 0; part < 64; part += 16) {
            if (column == 0) {
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    __builtin_prefetch(next[m] + part);
                    __builtin_prefetch(c.y + int64_t(first + m) * 64 + part, 1);
                }
            }
            for (int k = part; k < part + 16; ++k) {
                const float* w_k = w + k * 64 + column;
                const v8 w_0 = load<v8>(w_k);
                const v8 w_8 = load<v8>(w_k + 8);
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    const float x_k = x[m][k];
                    acc_0[m] += x_k * w_0;
                    acc_8[m] += x_k * w_8;
                }
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            float* out = c.y + int64_t(first + m) * 64 + column;
            const float* bias = c.bias + column;
            const v8 out_0 = acc_0[m] + load<v8>(bias);
            const v8 out_8 = acc_8[m] + load<v8>(bias + 8);
            store(out, out_0);
            store(out + 8, out_8);
        }
    }
}

// kernel_0: M rows at a time
template <int M>
static inline void kernel_0_tile_of_4(
        const Context& c, int32_t first, const float* w, int32_t ahead) {
    const float* x[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        x[m] = c.x + int64_t(first + m) * 64;
    }
    const float* next[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        next[m] = c.x + int64_t(first + (m < ahead ? M + m : m)) * 64;
    }
    for (int column = 0; column < 64; column += 32) {
        v8 acc_0[M];
        v8 acc_8[M];
        v8 acc_16[M];
        v8 acc_24[M];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            acc_0[m] = v8{};
            acc_8[m] = v8{};
            acc_16[m] = v8{};
            acc_24[m] = v8{};
        }
        for (int part = 0; part < 64; part += 16) {
            if (column == 0) {
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    __builtin_prefetch(next[m] + part);
                    __builtin_prefetch(c.y + int64_t(first + m) * 64 + part, 1);
                }
            }
            for (int k = part; k < part + 16; ++k) {
                const float* w_k = w + k * 64 + column;
                const v8 w_0 = load<v8>(w_k);
                const v8 w_8 = load<v8>(w_k + 8);
                const v8 w_16 = load<v8>(w_k + 16);
                const v8 w_24 = load<v8>(w_k + 24);
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    const float x_k = x[m][k];
                    acc_0[m] += x_k * w_0;
                    acc_8[m] += x_k * w_8;
                    acc_16[m] += x_k * w_16;
                    acc_24[m] += x_k * w_24;
                }
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            float* out = c.y + int64_t(first + m) * 64 + column;
            const float* bias = c.bias + column;
            const v8 out_0 = acc_0[m] + load<v8>(bias);
            const v8 out_8 = acc_8[m] + load<v8>(bias + 8);
            const v8 out_16 = acc_16[m] + load<v8>(bias + 16);
            const v8 out_24 = acc_24[m] + load<v8>(bias + 24);
            store(out, out_0);
            store(out + 8, out_8);
            store(out + 16, out_16);
            store(out + 24, out_24);
        }
    }
}

// kernel_0: M rows at a time
template <int M>
static inline void kernel_0_tile_of_8(
        const Context& c, int32_t first, const float* w, int32_t ahead) {
    const float* x[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        x[m] = c.x + int64_t(first + m) * 64;
    }
    const float* next[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        next[m] = c.x + int64_t(first + (m < ahead ? M + m : m)) * 64;
    }
    v8 acc_0[M];
    v8 acc_8[M];
    v8 acc_16[M];
    v8 acc_24[M];
    v8 acc_32[M];
    v8 acc_40[M];
    v8 acc_48[M];
    v8 acc_56[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        acc_0[m] = v8{};
        acc_8[m] = v8{};
        acc_16[m] = v8{};
        acc_24[m] = v8{};
        acc_32[m] = v8{};
        acc_40[m] = v8{};
        acc_48[m] = v8{};
        acc_56[m] = v8{};
    }
    for (int part = 0; part < 64; part += 16) {
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            __builtin_prefetch(next[m] + part);
            __builtin_prefetch(c.y + int64_t(first + m) * 64 + part, 1);
        }
        for (int k = part; k < part + 16; ++k) {
            const float* w_k = w + k * 64;
            const v8 w_0 = load<v8>(w_k);
            const v8 w_8 = load<v8>(w_k + 8);
            const v8 w_16 = load<v8>(w_k + 16);
            const v8 w_24 = load<v8>(w_k + 24);
            const v8 w_32 = load<v8>(w_k + 32);
            const v8 w_40 = load<v8>(w_k + 40);
            const v8 w_48 = load<v8>(w_k + 48);
            const v8 w_56 = load<v8>(w_k + 56);
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                const float x_k = x[m][k];
                acc_0[m] += x_k * w_0;
                acc_8[m] += x_k * w_8;
                acc_16[m] += x_k * w_16;
                acc_24[m] += x_k * w_24;
                acc_32[m] += x_k * w_32;
                acc_40[m] += x_k * w_40;
                acc_48[m] += x_k * w_48;
                acc_56[m] += x_k * w_56;
            }
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        float* out = c.y + int64_t(first + m) * 64;
        const float* bias = c.bias;
        const v8 out_0 = acc_0[m] + load<v8>(bias);
        const v8 out_8 = acc_8[m] + load<v8>(bias + 8);
        const v8 out_16 = acc_16[m] + load<v8>(bias + 16);
        const v8 out_24 = acc_24[m] + load<v8>(bias + 24);
        const v8 out_32 = acc_32[m] + load<v8>(bias + 32);
        const v8 out_40 = acc_40[m] + load<v8>(bias + 40);
        const v8 out_48 = acc_48[m] + load<v8>(bias + 48);
        const v8 out_56 = acc_56[m] + load<v8>(bias + 56);
        store(out, out_0);
        store(out + 8, out_8);
        store(out + 16, out_16);
        store(out + 24, out_24);
        store(out + 32, out_32);
        store(out + 40, out_40);
        store(out + 48, out_48);
        store(out + 56, out_56);
    }
}

// y = x @ root + bias, for every node
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const float* w = c.root;
    const int32_t stop = c.node_blocks[block + 1];
    int32_t i = c.node_blocks[block];
    while (i < stop) {
        const int32_t height = minimum(stop - i, 6);
        switch (height) {
            case 6: kernel_0_tile<6>(c, i, w, stop - i - height); break;
            case 5: kernel_0_tile<5>(c, i, w, stop - i - height); break;
            case 4: kernel_0_tile<4>(c, i, w, stop - i - height); break;
            case 3: kernel_0_tile_of_4<3>(c, i, w, stop - i - height); break;
            case 2: kernel_0_tile_of_4<2>(c, i, w, stop - i - height); break;
            default: kernel_0_tile_of_8<1>(c, i, w, stop - i - height); break;
        }
        i += height;
    }
}

// kernel_1: the operand's row of a pair, in sum or where it lies already
static inline const float* kernel_1_sum(const Context& c, int32_t pair, float* sum) {
    const int32_t begin = c.d_dst_pair_indptr[pair];
    const int32_t end = c.d_dst_pair_indptr[pair + 1];
    if (end - begin == 1) {
        return c.x + int64_t(c.d_src[begin]) * 64;
    }
    {
        v8 sum_0 = v8{};
        v8 sum_8 = v8{};
        v8 sum_16 = v8{};
        v8 sum_24 = v8{};
        v8 sum_32 = v8{};
        v8 sum_40 = v8{};
        v8 sum_48 = v8{};
        v8 sum_56 = v8{};
        in_parts(begin, end,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            for (int32_t e = part_begin; e < part_end; ++e) {
                const int32_t ahead = minimum(e + 16, end - 1);
                prefetch_row<64>(c.x + int64_t(c.d_src[ahead]) * 64);
                const float* in = c.x + int64_t(c.d_src[e]) * 64;
                sum_0 += load<v8>(in);
                sum_8 += load<v8>(in + 8);
                sum_16 += load<v8>(in + 16);
                sum_24 += load<v8>(in + 24);
                sum_32 += load<v8>(in + 32);
                sum_40 += load<v8>(in + 40);
                sum_48 += load<v8>(in + 48);
                sum_56 += load<v8>(in + 56);
            }
        }, sum_0, sum_8, sum_16, sum_24, sum_32, sum_40, sum_48, sum_56);
        store(sum, sum_0);
        store(sum + 8, sum_8);
        store(sum + 16, sum_16);
        store(sum + 24, sum_24);
        store(sum + 32, sum_32);
        store(sum + 40, sum_40);
        store(sum + 48, sum_48);
        store(sum + 56, sum_56);
    }
    return sum;
}

// kernel_1: M rows at a time
template <int M>
static inline void kernel_1_tile(const Context& c, const int32_t* rows, const float* w) {
    alignas(64) float sums[M][64];
    const float* summed[M];
    for (int m = 0; m < M; ++m) {
        summed[m] = kernel_1_sum(c, rows[m], sums[m]);
    }
    const float* x[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        x[m] = summed[m];
    }
    for (int column = 0; column < 64; column += 16) {
        v8 acc_0[M];
        v8 acc_8[M];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            acc_0[m] = v8{};
            acc_8[m] = v8{};
        }
        for (int part = 0; part < 64; part += 16) {
            if (column == 0) {
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    __builtin_prefetch(c.y + int64_t(c.d_dst_pair_node[rows[m]]) * 64 + part, 1);
                }
            }
            for (int k = part; k < part + 16; ++k) {
                const float* w_k = w + k * 64 + column;
                const v8 w_0 = load<v8>(w_k);
                const v8 w_8 = load<v8>(w_k + 8);
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    const float x_k = x[m][k];
                    acc_0[m] += x_k * w_0;
                    acc_8[m] += x_k * w_8;
                }
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            float* out = c.y + int64_t(c.d_dst_pair_node[rows[m]]) * 64 + column;
            const float scale = c.scale[rows[m]];
            const v8 out_0 = scale * acc_0[m] + load<v8>(out);
            const v8 out_8 = scale * acc_8[m] + load<v8>(out + 8);
            store(out, out_0);
            store(out + 8, out_8);
        }
    }
}

// kernel_1: M rows at a time
template <int M>
static inline void kernel_1_tile_of_4(const Context& c, const int32_t* rows, const float* w) {
    alignas(64) float sums[M][64];
    const float* summed[M];
    for (int m = 0; m < M; ++m) {
        summed[m] = kernel_1_sum(c, rows[m], sums[m]);
    }
    const float* x[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        x[m] = summed[m];
    }
    for (int column = 0; column < 64; column += 32) {
        v8 acc_0[M];
        v8 acc_8[M];
        v8 acc_16[M];
        v8 acc_24[M];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            acc_0[m] = v8{};
            acc_8[m] = v8{};
            acc_16[m] = v8{};
            acc_24[m] = v8{};
        }
        for (int part = 0; part < 64; part += 16) {
            if (column == 0) {
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    __builtin_prefetch(c.y + int64_t(c.d_dst_pair_node[rows[m]]) * 64 + part, 1);
                }
            }
            for (int k = part; k < part + 16; ++k) {
                const float* w_k = w + k * 64 + column;
                const v8 w_0 = load<v8>(w_k);
                const v8 w_8 = load<v8>(w_k + 8);
                const v8 w_16 = load<v8>(w_k + 16);
                const v8 w_24 = load<v8>(w_k + 24);
#pragma GCC unroll 16
                for (int m = 0; m < M; ++m) {
                    const float x_k = x[m][k];
                    acc_0[m] += x_k * w_0;
                    acc_8[m] += x_k * w_8;
                    acc_16[m] += x_k * w_16;
                    acc_24[m] += x_k * w_24;
                }
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            float* out = c.y + int64_t(c.d_dst_pair_node[rows[m]]) * 64 + column;
            const float scale = c.scale[rows[m]];
            const v8 out_0 = scale * acc_0[m] + load<v8>(out);
            const v8 out_8 = scale * acc_8[m] + load<v8>(out + 8);
            const v8 out_16 = scale * acc_16[m] + load<v8>(out + 16);
            const v8 out_24 = scale * acc_24[m] + load<v8>(out + 24);
            store(out, out_0);
            store(out + 8, out_8);
            store(out + 16, out_16);
            store(out + 24, out_24);
        }
    }
}

// kernel_1: M rows at a time
template <int M>
static inline void kernel_1_tile_of_8(const Context& c, const int32_t* rows, const float* w) {
    alignas(64) float sums[M][64];
    const float* summed[M];
    for (int m = 0; m < M; ++m) {
        summed[m] = kernel_1_sum(c, rows[m], sums[m]);
    }
    const float* x[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        x[m] = summed[m];
    }
    v8 acc_0[M];
    v8 acc_8[M];
    v8 acc_16[M];
    v8 acc_24[M];
    v8 acc_32[M];
    v8 acc_40[M];
    v8 acc_48[M];
    v8 acc_56[M];
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        acc_0[m] = v8{};
        acc_8[m] = v8{};
        acc_16[m] = v8{};
        acc_24[m] = v8{};
        acc_32[m] = v8{};
        acc_40[m] = v8{};
        acc_48[m] = v8{};
        acc_56[m] = v8{};
    }
    for (int part = 0; part < 64; part += 16) {
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            __builtin_prefetch(c.y + int64_t(c.d_dst_pair_node[rows[m]]) * 64 + part, 1);
        }
        for (int k = part; k < part + 16; ++k) {
            const float* w_k = w + k * 64;
            const v8 w_0 = load<v8>(w_k);
            const v8 w_8 = load<v8>(w_k + 8);
            const v8 w_16 = load<v8>(w_k + 16);
            const v8 w_24 = load<v8>(w_k + 24);
            const v8 w_32 = load<v8>(w_k + 32);
            const v8 w_40 = load<v8>(w_k + 40);
            const v8 w_48 = load<v8>(w_k + 48);
            const v8 w_56 = load<v8>(w_k + 56);
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                const float x_k = x[m][k];
                acc_0[m] += x_k * w_0;
                acc_8[m] += x_k * w_8;
                acc_16[m] += x_k * w_16;
                acc_24[m] += x_k * w_24;
                acc_32[m] += x_k * w_32;
                acc_40[m] += x_k * w_40;
                acc_48[m] += x_k * w_48;
                acc_56[m] += x_k * w_56;
            }
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        float* out = c.y + int64_t(c.d_dst_pair_node[rows[m]]) * 64;
        const float scale = c.scale[rows[m]];
        const v8 out_0 = scale * acc_0[m] + load<v8>(out);
        const v8 out_8 = scale * acc_8[m] + load<v8>(out + 8);
        const v8 out_16 = scale * acc_16[m] + load<v8>(out + 16);
        const v8 out_24 = scale * acc_24[m] + load<v8>(out + 24);
        const v8 out_32 = scale * acc_32[m] + load<v8>(out + 32);
        const v8 out_40 = scale * acc_40[m] + load<v8>(out + 40);
        const v8 out_48 = scale * acc_48[m] + load<v8>(out + 48);
        const v8 out_56 = scale * acc_56[m] + load<v8>(out + 56);
        store(out, out_0);
        store(out + 8, out_8);
        store(out + 16, out_16);
        store(out + 24, out_24);
        store(out + 32, out_32);
        store(out + 40, out_40);
        store(out + 48, out_48);
        store(out + 56, out_56);
    }
}

// y[dst] += scale * sum(x) @ w, for every dst_pair of group 'd'
NOINLINE void kernel_1(const Context& c, int64_t block) {
    const int32_t* rows = c.d_dst_pair_blocked_rows;
    const int32_t last_group = c.d_dst_pair_blocked_block_ptr[block + 1];
    for (int32_t g = c.d_dst_pair_blocked_block_ptr[block]; g < last_group; ++g) {
        const float* w = c.w + int64_t(c.d_dst_pair_blocked_group_etype[g]) * 4096;
        const int32_t stop = c.d_dst_pair_blocked_group_ptr[g + 1];
        int32_t i = c.d_dst_pair_blocked_group_ptr[g];
        while (i < stop) {
            const int32_t height = minimum(stop - i, 6);
            const int32_t next_stop = minimum(i + height + 6, stop);
            for (int32_t next = i + height; next < next_stop; ++next) {
                const int32_t edge = c.d_dst_pair_indptr[rows[next]];
                prefetch_row<64>(c.x + int64_t(c.d_src[edge]) * 64);
            }
            switch (height) {
                case 6: kernel_1_tile<6>(c, rows + i, w); break;
                case 5: kernel_1_tile<5>(c, rows + i, w); break;
                case 4: kernel_1_tile<4>(c, rows + i, w); break;
                case 3: kernel_1_tile_of_4<3>(c, rows + i, w); break;
                case 2: kernel_1_tile_of_4<2>(c, rows + i, w); break;
                default: kernel_1_tile_of_8<1>(c, rows + i, w); break;
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
    c.bias = static_cast<float*>(pointers[2]);
    c.node_blocks = static_cast<const int32_t*>(pointers[3]);
    c.root = static_cast<float*>(pointers[4]);
    c.d_dst_pair_indptr = static_cast<const int32_t*>(pointers[5]);
    c.d_src = static_cast<const int32_t*>(pointers[6]);
    c.d_dst_pair_node = static_cast<const int32_t*>(pointers[7]);
    c.scale = static_cast<float*>(pointers[8]);
    c.d_dst_pair_blocked_block_ptr = static_cast<const int32_t*>(pointers[9]);
    c.d_dst_pair_blocked_group_ptr = static_cast<const int32_t*>(pointers[10]);
    c.w = static_cast<float*>(pointers[11]);
    c.d_dst_pair_blocked_group_etype = static_cast<const int32_t*>(pointers[12]);
    c.d_dst_pair_blocked_rows = static_cast<const int32_t*>(pointers[13]);
    c.block_order = static_cast<const int32_t*>(pointers[14]);
    c.blocks = counts[0];
    c.hubs = counts[1];
    int64_t blocks = c.blocks;
    const bool overflowed =
        in_turns(blocks, c.hubs, threads, [&](int64_t turn) {
        const int64_t block = c.block_order[turn];
        kernel_0(c, block);
        kernel_1(c, block);
    });
    return overflowed || has_overflowed();
}
