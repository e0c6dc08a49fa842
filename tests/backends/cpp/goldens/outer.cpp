// schedule block_nodes=1024 row_tile=5 col_vectors=4 lanes=16 unroll=1 prefetch=16

namespace {

// what the launch is called with
struct Context {
    const int32_t* d_src;
    float* x;
    const int32_t* d_dst;
    float* y;
    const int32_t* d_position;
    float* a;
    const int32_t* chunk_block_ptr;
    const int32_t* chunk_group_ptr;
    float* w;
    const int32_t* chunk_group_etype;
    float* terms;
    const int32_t* chunk_rows;
    const int32_t* chunk_terms;
    const int32_t* chunk_type_ptr;
    int64_t chunk_blocks;
    int64_t all_etype_rows;
};

// kernel_0: adds rows to M rows of a sum, from x_at and y_at of the operands on
template <int M>
static inline void kernel_0_tile(
        const float* const* x, const float* const* y, int x_at, int y_at, int rows, float* total, bool begins) {
    {
        v16 acc_0[M];
        v16 acc_16[M];
        v16 acc_32[M];
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            acc_0[m] = begins ? v16{} : load<v16>(total + m * 48);
            acc_16[m] = begins ? v16{} : load<v16>(total + m * 48 + 16);
            acc_32[m] = begins ? v16{} : load<v16>(total + m * 48 + 32);
        }
        for (int row = 0; row < rows; ++row) {
            const float* x_row = x[row] + x_at;
            const float* y_row = y[row] + y_at;
            const v16 y_0 = load<v16>(y_row);
            const v16 y_16 = load<v16>(y_row + 16);
            const v16 y_32 = load<v16>(y_row + 32);
#pragma GCC unroll 16
            for (int m = 0; m < M; ++m) {
                const float x_k = x_row[m];
                acc_0[m] += x_k * y_0;
                acc_16[m] += x_k * y_16;
                acc_32[m] += x_k * y_32;
            }
        }
#pragma GCC unroll 16
        for (int m = 0; m < M; ++m) {
            store(total + m * 48, acc_0[m]);
            store(total + m * 48 + 16, acc_16[m]);
            store(total + m * 48 + 32, acc_32[m]);
        }
    }
}

// kernel_0: adds up to 32 rows, of which so many are left behind them
NOINLINE void kernel_0_panel(
        const Context& c, const int32_t* rows, int32_t height, int32_t left, float* total, bool begins) {
    const float* x[32];
    const float* y[32];
    alignas(64) float scaled[32][48];
    for (int m = 0; m < height; ++m) {
        x[m] = c.x + int64_t(c.d_src[rows[m]]) * 24;
        if (m < left) {
            prefetch_row<24>(c.x + int64_t(c.d_src[rows[m + 32]]) * 24);
        }
        y[m] = c.y + int64_t(c.d_dst[rows[m]]) * 48;
        if (m < left) {
            prefetch_row<48>(c.y + int64_t(c.d_dst[rows[m + 32]]) * 48);
        }
        const float* factor = c.a + int64_t(c.d_position[rows[m]]) * 2;
        for (int part = 0; part < 2; ++part) {
            const float* from = y[m] + part * 24;
            float* to = scaled[m] + part * 24;
            store<v16>(to, factor[part] * load<v16>(from));
            store<v8>(to + 16, factor[part] * load<v8>(from + 16));
        }
        y[m] = scaled[m];
    }
    for (int k = 0; k < 20; k += 5) {
        kernel_0_tile<5>(x, y, k, 0, height, total + (k) * 48, begins);
    }
    kernel_0_tile<4>(x, y, 20, 0, height, total + (20) * 48, begins);
}

// kernel_0: the same, of no more rows than float32 keeps the digits of
NOINLINE void kernel_0_sum(
        const Context& c, const int32_t* rows, int32_t count, float* total, bool begins) {
    if (count == 0 && begins) {
        for (int i = 0; i < 1152; ++i) {
            total[i] = 0.0f;
        }
    }
    int32_t i = 0;
    while (i < count) {
        const int32_t height = minimum(count - i, 32);
        kernel_0_panel(c, rows + i, height, count - i - height, total, begins && i == 0);
        i += height;
    }
}

// kernel_0: adds a chunk's rows to a sum, or begins it with them
NOINLINE void kernel_0_chunk(
        const Context& c, const int32_t* rows, int32_t count, float* total, bool begins) {
    if (count <= part_rows) {
        return kernel_0_sum(c, rows, count, total, begins);
    }
    alignas(64) float part[1152];
    alignas(64) double whole[1152];
    for (int i = 0; i < 1152; ++i) {
        whole[i] = begins ? 0.0 : total[i];
    }
    for (int32_t from = 0; from < count; from += part_rows) {
        const int32_t height = minimum(count - from, part_rows);
        kernel_0_sum(c, rows + from, height, part, true);
        for (int i = 0; i < 1152; ++i) {
            whole[i] += part[i];
        }
    }
    for (int i = 0; i < 1152; ++i) {
        total[i] = float(whole[i]);
    }
}

// w = sum of a * x[src] outer y[dst], for every edge of group 'd'
NOINLINE void kernel_0(const Context& c, int64_t block) {
    FlushDenormals flush;
    for (int32_t g = c.chunk_block_ptr[block]; g < c.chunk_block_ptr[block + 1]; ++g) {
        const int32_t term = c.chunk_terms[g];
        const int32_t count = c.chunk_group_ptr[g + 1] - c.chunk_group_ptr[g];
        float* total = term < 0 ? c.w + int64_t(c.chunk_group_etype[g]) * 1152 : c.terms + int64_t(term) * 1152;
        kernel_0_chunk(c, c.chunk_rows + c.chunk_group_ptr[g], count, total, true);
    }
}

// The sum of a type's terms; nothing where it has one chunk.
NOINLINE void kernel_0_end(const Context& c, int64_t type) {
    const int32_t first = c.chunk_type_ptr[type];
    const int32_t stop = c.chunk_type_ptr[type + 1];
    if (stop - first == 1) {
        return;
    }
    float* out = c.w + type * 1152;
    for (int i = 0; i < 1152; i += 64) {
        double sum[64];
        const int width = minimum(1152 - i, 64);
        for (int j = 0; j < width; ++j) {
            sum[j] = 0.0;
        }
        for (int32_t g = first; g < stop; ++g) {
            const float* term = c.terms + int64_t(c.chunk_terms[g]) * 1152;
            for (int j = 0; j < width; ++j) {
                sum[j] += term[i + j];
            }
        }
        for (int j = 0; j < width; ++j) {
            out[i + j] = float(sum[j]);
        }
    }
}

}  // namespace

// the launch; see its slots for the order of the arguments
EXPORT int hetune_launch(void* const* pointers, const int64_t* counts, int threads) {
    Context c;
    c.d_src = static_cast<const int32_t*>(pointers[0]);
    c.x = static_cast<float*>(pointers[1]);
    c.d_dst = static_cast<const int32_t*>(pointers[2]);
    c.y = static_cast<float*>(pointers[3]);
    c.d_position = static_cast<const int32_t*>(pointers[4]);
    c.a = static_cast<float*>(pointers[5]);
    c.chunk_block_ptr = static_cast<const int32_t*>(pointers[6]);
    c.chunk_group_ptr = static_cast<const int32_t*>(pointers[7]);
    c.w = static_cast<float*>(pointers[8]);
    c.chunk_group_etype = static_cast<const int32_t*>(pointers[9]);
    c.terms = static_cast<float*>(pointers[10]);
    c.chunk_rows = static_cast<const int32_t*>(pointers[11]);
    c.chunk_terms = static_cast<const int32_t*>(pointers[12]);
    c.chunk_type_ptr = static_cast<const int32_t*>(pointers[13]);
    c.chunk_blocks = counts[0];
    c.all_etype_rows = counts[1];
    int64_t blocks = c.chunk_blocks;
    const bool overflowed =
        in_turns(blocks, 0, threads, [&](int64_t block) {
        kernel_0(c, block);
    });
    const bool ended =
        in_turns(c.all_etype_rows, 0, threads, [&](int64_t type) {
        kernel_0_end(c, type);
    });
    return overflowed || ended;
}
