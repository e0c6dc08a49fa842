// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 prefetch=16

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
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            __builtin_prefetch(next[m] + part);
            __builtin_prefetch(c.y + int64_t(first + m) * 64 + part, 1);
        }
        for (int k = part; k < part + 16; ++k) {
            const float* w_k = w + k * 64;
            const v16 w_0 = load<v16>(w_k);
            const v16 w_16 = load<v16>(w_k + 16);
            const v16 w_32 = load<v16>(w_k + 32);
            const v16 w_48 = load<v16>(w_k + 48);
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                const float x_k = x[m][k];
                acc_0[m] += x_k * w_0;
                acc_16[m] += x_k * w_16;
                acc_32[m] += x_k * w_32;
                acc_48[m] += x_k * w_48;
            }
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        float* out = c.y + int64_t(first + m) * 64;
        const float* bias = c.bias;
        const v16 out_0 = acc_0[m] + load<v16>(bias);
        const v16 out_16 = acc_16[m] + load<v16>(bias + 16);
        const v16 out_32 = acc_32[m] + load<v16>(bias + 32);
        const v16 out_48 = acc_48[m] + load<v16>(bias + 48);
        store(out, out_0);
        store(out + 16, out_16);
        store(out + 32, out_32);
        store(out + 48, out_48);
    }
}

// y = x @ root + bias, for every node
NOINLINE void kernel_0(const Context& c, int64_t block) {
    const float* w = c.root;
    const int32_t stop = c.node_blocks[block + 1];
    int32_t i = c.node_blocks[block];
    while (i < stop) {
        const int32_t height = minimum(stop - i, 5);
        switch (height) {
            case 5: kernel_0_tile<5>(c, i, w, stop - i - height); break;
            case 4: kernel_0_tile<4>(c, i, w, stop - i - height); break;
            case 3: kernel_0_tile<3>(c, i, w, stop - i - height); break;
            case 2: kernel_0_tile<2>(c, i, w, stop - i - height); break;
            default: kernel_0_tile<1>(c, i, w, stop - i - height); break;
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
        v16 sum_0 = v16{};
        v16 sum_16 = v16{};
        v16 sum_32 = v16{};
        v16 sum_48 = v16{};
        in_parts(begin, end,
            [&](int32_t part_begin, int32_t part_end) INLINE_LAMBDA {
            for (int32_t e = part_begin; e < part_end; ++e) {
                const int32_t ahead = minimum(e + 16, end - 1);
                prefetch_row<64>(c.x + int64_t(c.d_src[ahead]) * 64);
                const float* in = c.x + int64_t(c.d_src[e]) * 64;
                sum_0 += load<v16>(in);
                sum_16 += load<v16>(in + 16);
                sum_32 += load<v16>(in + 32);
                sum_48 += load<v16>(in + 48);
            }
        }, sum_0, sum_16, sum_32, sum_48);
        store(sum, sum_0);
        store(sum + 16, sum_16);
        store(sum + 32, sum_32);
        store(sum + 48, sum_48);
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
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            __builtin_prefetch(c.y + int64_t(c.d_dst_pair_node[rows[m]]) * 64 + part, 1);
        }
        for (int k = part; k < part + 16; ++k) {
            const float* w_k = w + k * 64;
            const v16 w_0 = load<v16>(w_k);
            const v16 w_16 = load<v16>(w_k + 16);
            const v16 w_32 = load<v16>(w_k + 32);
            const v16 w_48 = load<v16>(w_k + 48);
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                const float x_k = x[m][k];
                acc_0[m] += x_k * w_0;
                acc_16[m] += x_k * w_16;
                acc_32[m] += x_k * w_32;
                acc_48[m] += x_k * w_48;
            }
        }
    }
#pragma GCC unroll 16
    for (int m = 0; m < M; ++m) {
        float* out = c.y + int64_t(c.d_dst_pair_node[rows[m]]) * 64;
        const float scale = c.scale[rows[m]];
        const v16 out_0 = scale * acc_0[m] + load<v16>(out);
        const v16 out_16 = scale * acc_16[m] + load<v16>(out + 16);
        const v16 out_32 = scale * acc_32[m] + load<v16>(out + 32);
        const v16 out_48 = scale * acc_48[m] + load<v16>(out + 48);
        store(out, out_0);
        store(out + 16, out_16);
        store(out + 32, out_32);
        store(out + 48, out_48);
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
            const int32_t height = minimum(stop - i, 5);
            const int32_t next_stop = minimum(i + height + 5, stop);
            for (int32_t next = i + height; next < next_stop; ++next) {
                const int32_t edge = c.d_dst_pair_indptr[rows[next]];
                prefetch_row<64>(c.x + int64_t(c.d_src[edge]) * 64);
            }
            switch (height) {
                case 5: kernel_1_tile<5>(c, rows + i, w); break;
                case 4: kernel_1_tile<4>(c, rows + i, w); break;
                case 3: kernel_1_tile<3>(c, rows + i, w); break;
                case 2: kernel_1_tile<2>(c, rows + i, w); break;
                default: kernel_1_tile<1>(c, rows + i, w); break;
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
