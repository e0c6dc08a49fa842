// Rows weighted by a softmax of dot products, 64 wide: a group of 16 lanes for each part.

struct Attention {
    const float *q, *k, *v, *top, *mass;
    const int* src;
    float *out, *carry, *carry_top, *carry_mass;
};

// The sum over a group's 16 lanes of each of U values: lane l has that of value place<U>(l).
template <int U>
__device__ __forceinline__ float folded(float (&s)[U], int lane) {
    int bit = 8;
#pragma unroll
    for (int n = U / 2; n >= 1; n /= 2, bit /= 2) {
        const bool upper = lane & bit;
#pragma unroll
        for (int i = 0; i < n; ++i) {
            const float mine = upper ? s[i + n] : s[i], other = upper ? s[i] : s[i + n];
            s[i] = mine + __shfl_xor_sync(ALL, other, bit);
        }
    }
    for (; bit; bit /= 2) s[0] += __shfl_xor_sync(ALL, s[0], bit);
    return s[0];
}

template <int U>
__device__ __forceinline__ int place(int lane) {  // upper bits of the lane: which value it has
    return lane / (16 / U);
}

template <int U, bool GATHER>
__device__ void attended(const Attention& a, const Parts& p, int first, int last, int most) {
    constexpr int W = 64, LANES = 16, GROUPS = THREADS / LANES;
    const int lane = threadIdx.x % LANES, part = first + threadIdx.x / LANES;
    const bool here = part < last;
    const int begin = here ? p.begin[part] : 0, length = here ? p.length[part] : 0;
    const int row = here ? p.row[part] : 0, mine = place<U>(lane);
    const float4 q = GATHER && here ? row_of<W>(a.q, row, lane) : zero();
    float4 total = zero();
    float top = LEAST, mass = 0.f;  // the mass is this lane's alone
    int id = lane < length ? (GATHER ? __ldg(a.src + begin + lane) : begin + lane) : -1;
    for (int i = 0; i < most; i += LANES) {
        const int ahead = i + LANES + lane;
        const int next = ahead < length ? (GATHER ? __ldg(a.src + begin + ahead) : begin + ahead) : -1;
#pragma unroll
        for (int j = 0; j < LANES; j += U) {
            if (i + j >= most) break;
            float4 values[U];
            float s[U];
            int of[U];
#pragma unroll
            for (int u = 0; u < U; ++u) of[u] = __shfl_sync(ALL, id, j + u, LANES);
            if (GATHER) {
                float4 keys[U];
#pragma unroll
                for (int u = 0; u < U; ++u) keys[u] = row_of<W>(a.k, of[u], lane);
#pragma unroll
                for (int u = 0; u < U; ++u) values[u] = row_of<W>(a.v, of[u], lane);
#pragma unroll
                for (int u = 0; u < U; ++u) s[u] = dot(q, keys[u]);
            } else {
#pragma unroll
                for (int u = 0; u < U; ++u) values[u] = row_of<W>(a.v, of[u], lane);
            }
            const bool live = i + j + mine < length;
            const int own = __shfl_sync(ALL, id, j + mine, LANES);
            float score = LEAST, weight = 1.f;
            if (GATHER) score = folded<U>(s, lane);
            else if (live) score = a.top[own], weight = a.mass[own];
            if (!live) score = LEAST;
            float highest = score;
#pragma unroll
            for (int bit = 8; bit >= 16 / U; bit /= 2)
                highest = fmaxf(highest, __shfl_xor_sync(ALL, highest, bit));
            highest = fmaxf(highest, top);
            const float shrink = __expf(top - highest), power = live ? __expf(score - highest) : 0.f;
            top = highest;
            mass = fmaf(mass, shrink, power * weight);
            total.x *= shrink, total.y *= shrink, total.z *= shrink, total.w *= shrink;
#pragma unroll
            for (int u = 0; u < U; ++u)
                fma(total, __shfl_sync(ALL, power, u * (16 / U), LANES), values[u]);
        }
        id = next;
    }
#pragma unroll
    for (int bit = 8; bit >= 16 / U; bit /= 2) mass += __shfl_xor_sync(ALL, mass, bit);
    if (!here) return;
    const int slot = p.slot[part];
    if (slot >= 0) {
        store<W>(a.carry, slot, lane, total);
        if (lane == 0) a.carry_top[slot] = top, a.carry_mass[slot] = mass;
        return;
    }
    const float share = 1.f / (mass > 0.f ? mass : 1.f);
    total.x *= share, total.y *= share, total.z *= share, total.w *= share;
    store<W>(a.out, row, lane, total);
}

template <int U, bool GATHER>
__device__ __forceinline__ void program_of(const Attention& a, const Parts& p, int program) {
    const int first = p.first[program], last = p.first[program + 1], most = p.most[program];
    if (most <= 2) attended<2, GATHER>(a, p, first, last, most);
    else attended<U, GATHER>(a, p, first, last, most);
}

#define SOFTMAX_PARAMETERS                                                                         \
    const float *__restrict__ q, const float *__restrict__ k, const float *__restrict__ v,         \
        const float *top, const float *mass, const int *__restrict__ src, const int *begin,        \
        const int *length, const int *row, const int *slot, const int *first, const int *most,     \
        float *out, float *carry, float *carry_top, float *carry_mass, int programs
#define SOFTMAX_KERNEL(NAME, U, GATHER)                                              \
    extern "C" __global__ void __launch_bounds__(THREADS) NAME(SOFTMAX_PARAMETERS) { \
        const Parts p{begin, length, row, slot, first, most};                        \
        const Attention a{q, k, v, top, mass, src, out, carry, carry_top, carry_mass}; \
        program_of<U, GATHER>(a, p, blockIdx.x);                                     \
    }

SOFTMAX_KERNEL(softmax_half4_64, 4, true)
SOFTMAX_KERNEL(softmax_half_64, 8, true)
SOFTMAX_KERNEL(softmax_join_64, 8, false)

extern "C" __global__ void __launch_bounds__(THREADS) softmax_persistent_64(SOFTMAX_PARAMETERS) {
    const Parts p{begin, length, row, slot, first, most};
    const Attention a{q, k, v, top, mass, src, out, carry, carry_top, carry_mass};
    for (int program = blockIdx.x; program < programs; program += gridDim.x)
        program_of<8, true>(a, p, program);
}
