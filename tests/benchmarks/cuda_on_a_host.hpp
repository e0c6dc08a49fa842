// Enough of CUDA C++ to run a kernel's blocks on a host, one after the other: each lane is a thread,
// and lanes of a warp meet at every shuffle. Copies are done at once.
#include <barrier>
#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#define HOSTED
#define __device__
#define __global__
#define __forceinline__ inline
#define __restrict__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __launch_bounds__(n)

struct alignas(16) float4 {
    float x, y, z, w;
};
struct Dim {
    int x;
};
static thread_local Dim threadIdx, blockIdx, gridDim;
constexpr int LANES_OF_WARP = 32, LANES_OF_BLOCK = 128;
struct Warp {
    std::barrier<> meet{LANES_OF_WARP};
    unsigned held[LANES_OF_WARP];
};
static Warp* warps;

inline Warp& warp() { return warps[threadIdx.x / LANES_OF_WARP]; }
inline void __syncwarp() { warp().meet.arrive_and_wait(); }
template <class T>
T of_lane(T value, int lane) {
    Warp& w = warp();
    T found;
    std::memcpy(&w.held[threadIdx.x % LANES_OF_WARP], &value, sizeof(T));
    w.meet.arrive_and_wait();
    std::memcpy(&found, &w.held[lane], sizeof(T));
    w.meet.arrive_and_wait();
    return found;
}
template <class T>
T __shfl_sync(unsigned, T value, int lane, int width = LANES_OF_WARP) {
    const int own = threadIdx.x % LANES_OF_WARP;
    return of_lane(value, own / width * width + lane % width);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
    return of_lane(value, (threadIdx.x % LANES_OF_WARP) ^ mask);
}
template <class T>
T __ldg(const T* p) {
    return *p;
}
template <class T>
T __ldcg(const T* p) {
    return *p;
}
template <class T>
void __stcs(T* p, T value) {
    *p = value;
}
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float __expf(float x) { return std::exp(x); }
using std::fmaf;
using std::fmaxf;

inline void copy_async(void* to, const void* from, int size) {
    size ? std::memcpy(to, from, 16) : std::memset(to, 0, 16);
}
inline void commit() {}
template <int PENDING>
void wait_for_copies() {}
inline void init(unsigned long long*) {}
inline void expect(unsigned long long*, int) {}
inline void copy_bulk(void* to, const void* from, int bytes, unsigned long long*) {
    std::memcpy(to, from, bytes);
}
inline void wait(unsigned long long*, unsigned) { __syncwarp(); }

template <class Kernel>
void run_blocks(int blocks, Kernel kernel) {
    for (int block = 0; block < blocks; ++block) {
        std::vector<Warp> here(LANES_OF_BLOCK / LANES_OF_WARP);
        warps = here.data();
        std::vector<std::thread> lanes;
        for (int lane = 0; lane < LANES_OF_BLOCK; ++lane)
            lanes.emplace_back([=] {
                threadIdx.x = lane, blockIdx.x = block, gridDim.x = blocks;
                kernel();
            });
        for (auto& lane : lanes) lane.join();
    }
}
