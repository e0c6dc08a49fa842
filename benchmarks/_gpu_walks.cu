// Sums and softmax sums of rows of 64 float32 over hetune's parts, by hand.
//
// LANES threads walk a part. Each half-warp takes an edge at a time, each of its threads 4 columns;
// U edges of a half-warp are in flight. Partial rows of split rows hold their maximum, the sum of
// their weights, and the sum: 72 numbers.

constexpr int WIDTH = 64, PARTIAL = 72, MASS = 4, SUM = 8, THREADS = 128, STAGES = 2, ROWS = 16;
constexpr float LOWEST = -3.4028234663852886e+38f, INFINITE = __builtin_huge_valf();
constexpr unsigned ALL = ~0u;

struct Arrays {
  const int *row, *slot, *begin, *end, *src;  // of parts; of edges
  const float *weight, *query, *key, *table;  // of edges; of nodes
  float *partial, *out;
  int first, count;  // parts of this start
};
struct Part { int row, slot, begin, end; };
struct Edge { int src; float weight; };

__device__ Part part_of(const Arrays& a, int number) {
  if (number >= a.count) return {0, 0, 0, 0};
  const int at = a.first + number;
  return {a.row[at], a.slot[at], a.begin[at], a.end[at]};
}

template <bool WEIGHTED>
__device__ Edge edge_of(const Arrays& a, int number, int end) {
  if (number >= end) return {0, 0.0f};
  return {__ldcs(a.src + number), WEIGHTED ? __ldcs(a.weight + number) : 1.0f};
}

__device__ float4 load(const float* row) { return __ldg(reinterpret_cast<const float4*>(row)); }

__device__ void add(float4& total, float weight, float4 x) {
  total.x += weight * x.x, total.y += weight * x.y;
  total.z += weight * x.z, total.w += weight * x.w;
}

__device__ float4 scaled(float4 x, float by) { return {x.x * by, x.y * by, x.z * by, x.w * by}; }

__device__ float4 of_both_halves(float4 x) {
  return {x.x + __shfl_xor_sync(ALL, x.x, 16), x.y + __shfl_xor_sync(ALL, x.y, 16),
          x.z + __shfl_xor_sync(ALL, x.z, 16), x.w + __shfl_xor_sync(ALL, x.w, 16)};
}

// A row that is whole, normalised; or a partial row. `column` is the first of a thread's four.
__device__ void store(const Arrays& a, Part p, int column, float top, float mass, float4 total) {
  float* row = a.out + static_cast<long>(p.row) * WIDTH + column;
  float* partial = a.partial + static_cast<long>(p.slot) * PARTIAL;
  if (p.slot < 0)
    return __stcs(reinterpret_cast<float4*>(row), scaled(total, 1.0f / fmaxf(mass, 1.0f)));
  *reinterpret_cast<float4*>(partial + SUM + column) = total;
  if (column == 0) partial[0] = top, partial[MASS] = mass;
}

// The state of a part's walk: without SOFTMAX, the total alone.
template <int LANES, int U, bool SOFTMAX>
struct Walk {
  float top = LOWEST, mass = 0.0f;
  float4 total = {0.0f, 0.0f, 0.0f, 0.0f}, query = total;

  // Edges that the threads of a part hold, one each; at most `most` in any part of the warp.
  __device__ void edges(const Arrays& a, Edge held, int here, int most) {
    constexpr int HALVES = LANES / 16;
    const int column = threadIdx.x % 16 * 4, half = threadIdx.x / 16 % HALVES;
#pragma unroll 1
    for (int step = 0; step < most; step += HALVES * U) {
      float4 x[U], key[U];
      float weight[U];
#pragma unroll
      for (int u = 0; u < U; ++u) {
        const int edge = step + u * HALVES + half;
        const long row = static_cast<long>(__shfl_sync(ALL, held.src, edge, LANES)) * WIDTH;
        weight[u] = SOFTMAX ? -INFINITE : __shfl_sync(ALL, held.weight, edge, LANES);
        x[u] = key[u] = {0.0f, 0.0f, 0.0f, 0.0f};
        if (edge < here) {
          if constexpr (SOFTMAX) key[u] = load(a.key + row + column), weight[u] = 0.0f;
          x[u] = load(a.table + row + column);
        }
      }
      if constexpr (SOFTMAX) scores(key, weight);
#pragma unroll
      for (int u = 0; u < U; ++u) add(total, weight[u], x[u]);
    }
  }

  // Scores of edges, then their weights below the largest score so far.
  __device__ void scores(const float4 (&key)[U], float (&weight)[U]) {
    float high = top;
#pragma unroll
    for (int u = 0; u < U; ++u) {
      float s = key[u].x * query.x + key[u].y * query.y + key[u].z * query.z + key[u].w * query.w;
#pragma unroll
      for (int lane = 8; lane; lane /= 2) s += __shfl_xor_sync(ALL, s, lane);
      weight[u] += s;  // 0, or -inf where there is no edge
      high = fmaxf(high, weight[u]);
    }
    fade(high);
#pragma unroll
    for (int u = 0; u < U; ++u) mass += weight[u] = __expf(weight[u] - top);
  }

  __device__ void fade(float high) {
    const float by = __expf(top - high);
    top = high, mass *= by, total = scaled(total, by);
  }

  __device__ void join_halves() {
    if constexpr (SOFTMAX) fade(fmaxf(top, __shfl_xor_sync(ALL, top, 16)));
    mass += __shfl_xor_sync(ALL, mass, 16), total = of_both_halves(total);
  }
};

template <int LANES, int U, bool SOFTMAX, bool STAYS>
__device__ void walk(const Arrays& a) {
  const int lane = threadIdx.x % LANES, column = threadIdx.x % 16 * 4;
  const int groups = STAYS ? gridDim.x * THREADS / LANES : a.count;
  int number = (blockIdx.x * THREADS + threadIdx.x) / LANES;
  const int warp = number & -(32 / LANES);  // the first part of the warp's
  Part now = part_of(a, number), next = STAYS ? part_of(a, number + groups) : now;
  Edge held = edge_of<!SOFTMAX>(a, now.begin + lane, now.end);
  for (int at = warp; at < a.count; at += groups, number += groups) {
    const Part later = STAYS ? part_of(a, number + 2 * groups) : now;
    const Edge following = STAYS ? edge_of<!SOFTMAX>(a, next.begin + lane, next.end) : held;
    Walk<LANES, U, SOFTMAX> state;
    const long row = static_cast<long>(now.row) * WIDTH;
    if constexpr (SOFTMAX) state.query = load(a.query + row + column);
    const int length = now.end - now.begin;
    const int most = LANES == 32 ? length : max(length, __shfl_xor_sync(ALL, length, 16));
    for (int base = 0; base < most; base += LANES) {
      const Edge ahead = edge_of<!SOFTMAX>(a, now.begin + base + LANES + lane, now.end);
      state.edges(a, held, length - base, min(most - base, LANES));
      held = ahead;
    }
    if constexpr (LANES == 32) state.join_halves();
    if (number < a.count && lane < 16) store(a, now, column, state.top, state.mass, state.total);
    if constexpr (!STAYS) return;
    now = next, next = later, held = following;
  }
}

// Partial rows added up in order by a warp, as edges of weight exp(their maximum - the largest).
template <bool SOFTMAX>
__device__ void merge(const Arrays& a) {
  const int number = (blockIdx.x * THREADS + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (number >= a.count) return;
  const Part p = part_of(a, number);
  float top = LOWEST, mass = 0.0f;
  float4 total = {0.0f, 0.0f, 0.0f, 0.0f};
  for (int i = p.begin + lane; SOFTMAX && i < p.end; i += 32)
    top = fmaxf(top, a.partial[i * PARTIAL]);
  for (int far = 16; SOFTMAX && far; far /= 2) top = fmaxf(top, __shfl_xor_sync(ALL, top, far));
#pragma unroll 4
  for (int i = p.begin + lane / 16; i < p.end; i += 2) {
    const float* row = a.partial + static_cast<long>(i) * PARTIAL;
    const float weight = SOFTMAX ? __expf(row[0] - top) : 1.0f;
    if constexpr (SOFTMAX) mass += weight * row[MASS];
    add(total, weight, *reinterpret_cast<const float4*>(row + SUM + lane % 16 * 4));
  }
  mass += __shfl_xor_sync(ALL, mass, 16), total = of_both_halves(total);
  if (lane < 16) store(a, p, lane * 4, top, mass, total);
}

// Sums whose rows come by bulk copies: 16 of a warp at a time, while it adds up the 16 before them.
__device__ void bulk(const Arrays& a) {
  __shared__ alignas(128) float rows[THREADS / 32][STAGES][ROWS][WIDTH];
  __shared__ alignas(8) unsigned long long bars[THREADS / 32][STAGES];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, groups = gridDim.x * THREADS / 32;
  auto shared = [](void* of) { return static_cast<unsigned>(__cvta_generic_to_shared(of)); };
  if (lane < STAGES)
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared(&bars[warp][lane])));
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncwarp();
  struct Stage { Part part; Edge held; int left; } stages[STAGES];  // left: edges, -1 for no part
  int number = (blockIdx.x * THREADS + threadIdx.x) / 32, base = 0;
  Part now = part_of(a, number), next = part_of(a, number + groups);
  auto ask = [&](int s) {  // for a stage's rows, and go on to the next ones
    const int left = now.end - now.begin - base, here = min(ROWS, left);
    const Edge held = edge_of<true>(a, now.begin + base + lane, now.end);
    stages[s] = {now, held, number < a.count ? left : -1};
    const unsigned bar = shared(&bars[warp][s]);
    if (lane == 0)
      asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(bar), "r"(here * 256)
                   : "memory");
    __syncwarp();
    if (lane < here)
      asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                   "[%0], [%1], 256, [%2];" ::"r"(shared(rows[warp][s][lane])),
                   "l"(a.table + static_cast<long>(stages[s].held.src) * WIDTH), "r"(bar)
                   : "memory");
    base += ROWS;
    if (left <= ROWS) now = next, number += groups, next = part_of(a, number + groups), base = 0;
  };
  ask(0);
  float4 total = {0.0f, 0.0f, 0.0f, 0.0f};
  for (unsigned phase = 0;; phase ^= 1) {
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
      ask((s + 1) % STAGES);
      if (stages[s].left < 0) return;
      asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; "
                   "@!p bra again; }" ::"r"(shared(&bars[warp][s])), "r"(phase) : "memory");
#pragma unroll
      for (int i = lane / 16; i < ROWS; i += 2) {
        const float weight = __shfl_sync(ALL, stages[s].held.weight, i);
        if (i < stages[s].left)
          add(total, weight, *reinterpret_cast<float4*>(&rows[warp][s][i][lane % 16 * 4]));
      }
      __syncwarp();
      if (stages[s].left > ROWS) continue;
      total = of_both_halves(total);
      if (lane < 16) store(a, stages[s].part, lane * 4, LOWEST, 0.0f, total);
      total = {0.0f, 0.0f, 0.0f, 0.0f};
    }
  }
}

#define KERNEL(NAME, CALL) \
  extern "C" __global__ void __launch_bounds__(THREADS) NAME(const __grid_constant__ Arrays a) { \
    CALL                                                                                         \
  }
#define WALKS(LANES, U)                                                         \
  KERNEL(sum_##LANES##_##U, (walk<LANES, U, false, false>(a));)                 \
  KERNEL(sum_##LANES##_##U##_stays, (walk<LANES, U, false, true>(a));)          \
  KERNEL(softmax_##LANES##_##U, (walk<LANES, U, true, false>(a));)              \
  KERNEL(softmax_##LANES##_##U##_stays, (walk<LANES, U, true, true>(a));)
WALKS(32, 2)
WALKS(32, 4)
WALKS(16, 2)
WALKS(16, 4)
KERNEL(sum_bulk, bulk(a);)
KERNEL(sum_merge, merge<false>(a);)
KERNEL(softmax_merge, merge<true>(a);)
