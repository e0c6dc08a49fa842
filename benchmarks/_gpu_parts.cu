// Sums of rows, and rows weighted by a softmax, over parts of edges: by hand in CUDA C++, for sm_90.
// What `gpu_parts.py` compares with the same by hand in Triton. A row of W floats is read by a group
// of W / 4 lanes, 16 bytes each; a block has 128 threads. Tables are those of `_gpu_parts_index.py`.

constexpr int THREADS = 128;
constexpr unsigned ALL = 0xffffffffu;
constexpr float LEAST = -3.0e38f;

// What the copy engines do, as instructions; a test has others in their place.
#ifndef HOSTED
__device__ __forceinline__ unsigned shared_address(const void* p) { return __cvta_generic_to_shared(p); }
// Copies 16 bytes, or fills them with zeros where size is 0.
__device__ __forceinline__ void copy_async(void* to, const void* from, int size) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
                 "r"(size)
                 : "memory");
}
__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
// A barrier in shared memory that one arrival and the bytes it expects complete.
__device__ __forceinline__ void init(unsigned long long* barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void expect(unsigned long long* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void copy_bulk(void* to, const void* from, int bytes,
                                          unsigned long long* barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
}
__device__ __forceinline__ void wait(unsigned long long* barrier, unsigned parity) {
    asm volatile(
        "{\n .reg .pred done;\n waiting:\n"
        " mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        " @!done bra waiting;\n}" ::"r"(shared_address(barrier)),
        "r"(parity)
        : "memory");
}
#endif

struct Parts {
    const int *begin, *length, *row, *slot, *first, *most;
};

__device__ __forceinline__ float4 zero() { return make_float4(0.f, 0.f, 0.f, 0.f); }
__device__ __forceinline__ void add(float4& a, const float4& b) {
    a.x += b.x, a.y += b.y, a.z += b.z, a.w += b.w;
}
__device__ __forceinline__ void fma(float4& a, float s, const float4& b) {
    a.x = fmaf(s, b.x, a.x), a.y = fmaf(s, b.y, a.y);
    a.z = fmaf(s, b.z, a.z), a.w = fmaf(s, b.w, a.w);
}
__device__ __forceinline__ float dot(const float4& a, const float4& b) {
    return fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, a.w * b.w)));
}
// Where STREAM, rows pass by the L1 cache, and results leave the L2 cache first.
template <int W, bool STREAM = false>
__device__ __forceinline__ float4 row_of(const float* table, int id, int lane) {
    const float4* from = reinterpret_cast<const float4*>(table + id * W) + lane;
    return id < 0 ? zero() : STREAM ? __ldcg(from) : __ldg(from);
}
template <int W, bool STREAM = false>
__device__ __forceinline__ void store(float* out, int row, int lane, const float4& value) {
    float4* to = reinterpret_cast<float4*>(out + row * W) + lane;
    if (STREAM) __stcs(to, value);
    else *to = value;
}

// ------------------------------------------------------------------------------------------- sums

// Parts of at most M edges: R of them for each group, all their loads before the first addition.
template <int W, int M, int R, bool GATHER, bool STREAM>
__device__ void short_sums(const float* x, const int* src, const Parts& p, float* out, float* carry,
                           int first, int last) {
    constexpr int LANES = W / 4, GROUPS = THREADS / LANES;
    const int lane = threadIdx.x % LANES, group = threadIdx.x / LANES;
    int begin[R], length[R], id[R][M];
    float4 rows[R][M];
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int part = first + group + r * GROUPS;
        length[r] = part < last ? p.length[part] : 0;
        begin[r] = part < last ? p.begin[part] : 0;
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int m = 0; m < M; ++m)
            id[r][m] = m < length[r] ? (GATHER ? __ldg(src + begin[r] + m) : begin[r] + m) : -1;
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int m = 0; m < M; ++m) rows[r][m] = row_of<W, STREAM>(x, id[r][m], lane);
#pragma unroll
    for (int r = 0; r < R; ++r) {
        const int part = first + group + r * GROUPS;
        if (part >= last) continue;
#pragma unroll
        for (int m = 1; m < M; ++m) add(rows[r][0], rows[r][m]);
        const int slot = p.slot[part];
        slot < 0 ? store<W, STREAM>(out, p.row[part], lane, rows[r][0])
                 : store<W>(carry, slot, lane, rows[r][0]);
    }
}

// A part for each S groups, which take turns at its edges, U at a time each.
template <int W, int U, int S, bool GATHER, bool STREAM>
__device__ void long_sums(const float* x, const int* src, const Parts& p, float* out, float* carry,
                          int first, int last, int most) {
    constexpr int LANES = W / 4 * S;  // of a part
    const int lane = threadIdx.x % LANES, part = first + threadIdx.x / LANES;
    const int column = lane % (W / 4), turn = lane / (W / 4);
    const bool here = part < last;
    const int begin = here ? p.begin[part] : 0, length = here ? p.length[part] : 0;
    float4 total = zero();
    int id = lane < length ? (GATHER ? __ldg(src + begin + lane) : begin + lane) : -1;
    for (int i = 0; i < most; i += LANES) {
        const int ahead = i + LANES + lane;
        const int next = ahead < length ? (GATHER ? __ldg(src + begin + ahead) : begin + ahead) : -1;
        for (int j = 0; j < LANES && i + j < most; j += U * S) {
            float4 rows[U];
#pragma unroll
            for (int u = 0; u < U; ++u)
                rows[u] = row_of<W, STREAM>(x, __shfl_sync(ALL, id, j + u * S + turn, LANES), column);
#pragma unroll
            for (int u = 0; u < U; ++u) add(total, rows[u]);
        }
        id = next;
    }
    if (S == 2) {
        total.x += __shfl_xor_sync(ALL, total.x, W / 4), total.y += __shfl_xor_sync(ALL, total.y, W / 4);
        total.z += __shfl_xor_sync(ALL, total.z, W / 4), total.w += __shfl_xor_sync(ALL, total.w, W / 4);
    }
    if (!here || turn) return;
    const int slot = p.slot[part];
    slot < 0 ? store<W, STREAM>(out, p.row[part], column, total) : store<W>(carry, slot, column, total);
}

template <int W, int U, int S, bool GATHER, bool STREAM = false>
__device__ __forceinline__ void sums(const float* x, const int* src, const Parts& p, float* out,
                                     float* carry, int program) {
    const int first = p.first[program], last = p.first[program + 1], most = p.most[program];
    if (most <= 1) short_sums<W, 1, 8, GATHER, STREAM>(x, src, p, out, carry, first, last);
    else if (most <= 2) short_sums<W, 2, 4, GATHER, STREAM>(x, src, p, out, carry, first, last);
    else if (most <= 4) short_sums<W, 4, 2, GATHER, STREAM>(x, src, p, out, carry, first, last);
    else long_sums<W, U, S, GATHER, STREAM>(x, src, p, out, carry, first, last, most);
}

#define SUM_PARAMETERS                                                                            \
    const float *__restrict__ x, const int *__restrict__ src, const int *begin, const int *length, \
        const int *row, const int *slot, const int *first, const int *most, float *out,            \
        float *carry, int programs
#define SUM_KERNEL(NAME, W, U, S, GATHER, STREAM)                                      \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(SUM_PARAMETERS) { \
        const Parts p{begin, length, row, slot, first, most};                  \
        sums<W, U, S, GATHER, STREAM>(x, src, p, out, carry, blockIdx.x);              \
    }

SUM_KERNEL(sum_half_32, 32, 8, 1, true, false)
SUM_KERNEL(sum_half_64, 64, 8, 1, true, false)
SUM_KERNEL(sum_half_128, 128, 8, 1, true, false)
SUM_KERNEL(sum_stream_64, 64, 8, 1, true, true)
SUM_KERNEL(sum_half16_64, 64, 16, 1, true, false)
SUM_KERNEL(sum_half4_64, 64, 4, 1, true, false)
SUM_KERNEL(sum_warp_64, 64, 8, 2, true, false)
SUM_KERNEL(sum_join_32, 32, 8, 1, false, false)
SUM_KERNEL(sum_join_64, 64, 8, 1, false, false)
SUM_KERNEL(sum_join_128, 128, 8, 1, false, false)

// As many blocks as run at once take programs in turns.
extern "C" __global__ void __launch_bounds__(THREADS) sum_persistent_64(SUM_PARAMETERS) {
    const Parts p{begin, length, row, slot, first, most};
    for (int program = blockIdx.x; program < programs; program += gridDim.x)
        sums<64, 8, 1, true>(x, src, p, out, carry, program);
}

// Rows come by cp.async into a ring in shared memory; a lane reads what it has copied itself.
template <int AHEAD, int U>
__device__ void async_sums(const float* x, const int* src, const Parts& p, float* out, float* carry,
                           int first, int last, int most) {
    constexpr int LANES = 16, GROUPS = THREADS / LANES, W = 64;
    __shared__ float4 ring[AHEAD][U][THREADS];
    const int lane = threadIdx.x % LANES, part = first + threadIdx.x / LANES;
    const bool here = part < last;
    const int begin = here ? p.begin[part] : 0, length = here ? p.length[part] : 0;
    float4 total = zero();
    int id = lane < length ? __ldg(src + begin + lane) : -1, next = -1;
    auto copy = [&](int step) {  // edges step * U ...
        const int i = step * U;
        if (i % LANES == 0) {
            if (i) id = next;
            const int ahead = i + LANES + lane;
            next = ahead < length ? __ldg(src + begin + ahead) : -1;
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
            const int of = __shfl_sync(ALL, id, i % LANES + u, LANES);
            const float* from = x + (of < 0 ? 0 : of) * W + lane * 4;
            copy_async(&ring[step % AHEAD][u][threadIdx.x], from, of < 0 ? 0 : 16);
        }
    };
    const int steps = (most + U - 1) / U;
#pragma unroll
    for (int step = 0; step < AHEAD - 1; ++step) {
        if (step < steps) copy(step);
        commit();
    }
    for (int step = 0; step < steps; ++step) {
        if (step + AHEAD - 1 < steps) copy(step + AHEAD - 1);
        commit();
        wait_for_copies<AHEAD - 1>();
#pragma unroll
        for (int u = 0; u < U; ++u) add(total, ring[step % AHEAD][u][threadIdx.x]);
    }
    if (!here) return;
    const int slot = p.slot[part];
    slot < 0 ? store<W>(out, p.row[part], lane, total) : store<W>(carry, slot, lane, total);
}

extern "C" __global__ void __launch_bounds__(THREADS) sum_async_64(SUM_PARAMETERS) {
    const Parts p{begin, length, row, slot, first, most};
    const int program = blockIdx.x, from = first[program], to = first[program + 1];
    if (most[program] <= 4) sums<64, 8, 1, true>(x, src, p, out, carry, program);
    else async_sums<4, 4>(x, src, p, out, carry, from, to, most[program]);
}

// Whole rows come by cp.async.bulk, each by one instruction of one lane; a part for each warp.
template <int AHEAD, int U>
__device__ void bulk_sums(const float* x, const int* src, const Parts& p, float* out, float* carry,
                          int first, int last) {
    constexpr int W = 64, WARPS = THREADS / 32;
    __shared__ __align__(128) float ring[WARPS][AHEAD][U][W];
    __shared__ __align__(8) unsigned long long full[WARPS][AHEAD];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = first + warp;
    const int column = lane % 16, turn = lane / 16;
    if (part >= last) return;  // nothing below waits for other warps
    const int begin = p.begin[part], length = p.length[part];
    if (lane < AHEAD) init(&full[warp][lane]);
    __syncwarp();
    auto copy = [&](int step) {
        const int i = step * U, count = length - i < U ? length - i : U, at = step % AHEAD;
        if (lane == 0) expect(&full[warp][at], count * W * 4);
        __syncwarp();
        if (lane < count) {
            const float* from = x + __ldg(src + begin + i + lane) * W;
            copy_bulk(&ring[warp][at][lane][0], from, W * 4, &full[warp][at]);
        }
    };
    const int steps = (length + U - 1) / U;
    float4 total = zero();
    for (int step = 0; step < AHEAD - 1 && step < steps; ++step) copy(step);
    for (int step = 0; step < steps; ++step) {
        if (step + AHEAD - 1 < steps) copy(step + AHEAD - 1);
        const int at = step % AHEAD, count = length - step * U < U ? length - step * U : U;
        wait(&full[warp][at], step / AHEAD & 1);
#pragma unroll
        for (int u = 0; u < U; u += 2)
            if (u + turn < count)
                add(total, reinterpret_cast<const float4*>(&ring[warp][at][u + turn][0])[column]);
        __syncwarp();
    }
    total.x += __shfl_xor_sync(ALL, total.x, 16), total.y += __shfl_xor_sync(ALL, total.y, 16);
    total.z += __shfl_xor_sync(ALL, total.z, 16), total.w += __shfl_xor_sync(ALL, total.w, 16);
    if (turn) return;
    const int slot = p.slot[part];
    slot < 0 ? store<W>(out, p.row[part], column, total) : store<W>(carry, slot, column, total);
}

extern "C" __global__ void __launch_bounds__(THREADS) sum_bulk_64(SUM_PARAMETERS) {
    const Parts p{begin, length, row, slot, first, most};
    const int program = blockIdx.x, from = first[program], to = first[program + 1];
    if (most[program] <= 4) sums<64, 8, 1, true>(x, src, p, out, carry, program);
    else bulk_sums<4, 8>(x, src, p, out, carry, from, to);
}
