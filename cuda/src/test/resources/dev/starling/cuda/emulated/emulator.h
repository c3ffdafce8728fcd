// Runs kernels on the host: the threads of a block are fibers that switch when they wait for each other, and blocks run
// one after the other. A seed determines the order of blocks, and that of warps and their lanes between two barriers.
// Shared memory contains NaN and -1 when a block begins. Errors are: an access to an address that its type does not
// allow, a block of more threads than the kernel's bound, and arguments of another size than the kernel's parameters.
// Kernels must not use anything that is not defined here. Headers are slow to parse, so none is included; what does not
// depend on the kernel is compiled once (emulator.cpp). Several sources may follow, each in a namespace of its own, for
// which SHARED_SECTION names the section of its shared variables.
typedef __SIZE_TYPE__ size_t;

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __shared__ static __attribute__((section(SHARED_SECTION)))
#define __constant__ static
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define DEVICE static inline

namespace emulator {
struct Index { unsigned x, y, z; };

enum State { RUNNING, DONE };
struct Fiber {
    void* stack_pointer;
    char* stack;
    Index thread;
    unsigned number;
    State state;
    // Whether the next thread starts on this one's stack.
    bool idle;
};
// Threads that wait for each other; a turn ends when all of them have arrived.
struct Meeting { unsigned arrived, members, turn; };
struct Slot { alignas(8) unsigned char bytes[8]; };

static const unsigned MAX_THREADS = 1024;
#pragma GCC visibility push(hidden)
extern Fiber* current;
extern Index block, block_dim, grid_dim;
extern Meeting all, warps[MAX_THREADS / 32];
extern Slot slots[MAX_THREADS];
extern void (*entry)();

// Waits until all members of a meeting are there.
void meet(Meeting& meeting);
// Runs all blocks, starting at a random one; returns 0 or an Error. All shared variables are between two addresses.
int run_grid(const unsigned* dimensions, unsigned bound, unsigned parameters, char* shared, char* shared_end);
#pragma GCC visibility pop

template <class T> T exchange(unsigned mask, T value, unsigned lane, bool valid) {
    static_assert(sizeof(T) <= 8, "shuffles move at most 8 bytes");
    unsigned first = current->number & ~31u;
    __builtin_memcpy(slots[current->number].bytes, &value, sizeof(T));
    meet(warps[current->number / 32]);
    T result = value;
    if (valid) {
        __builtin_memcpy(&result, slots[first + (lane & 31)].bytes, sizeof(T));
    }
    meet(warps[current->number / 32]);
    return result;
}

// Returns the values of all threads of the warp, which stay valid until the threads meet again.
template <class T> const T* gather(const T& own) {
    static T all_own[MAX_THREADS];
    all_own[current->number] = own;
    meet(warps[current->number / 32]);
    return all_own + (current->number & ~31u);
}

static const char* argument;
template <class T> T take() {
    argument = (const char*) (((size_t) argument + alignof(T) - 1) & -alignof(T));
    T value;
    __builtin_memcpy((void*) &value, argument, sizeof(T));
    argument += sizeof(T);
    return value;
}
struct Call {
    template <class... A, class... B> Call(void (*kernel)(A...), B... arguments) { kernel(arguments...); }
};
template <class... A> void call(void (*kernel)(A...), const char* arguments) {
    argument = arguments;
    Call{kernel, take<A>()...};
}
// The end of the kernel's last parameter.
template <class... A> constexpr unsigned size_of(void (*)(A...)) {
    unsigned bytes = 0;
    ((bytes = ((bytes + alignof(A) - 1) & -alignof(A)) + sizeof(A)), ...);
    return bytes;
}
}

#define threadIdx (emulator::current->thread)
#define blockIdx (emulator::block)
#define blockDim (emulator::block_dim)
#define gridDim (emulator::grid_dim)
#define warpSize 32

static inline void __syncthreads() { emulator::meet(emulator::all); }
static inline void __syncwarp(unsigned mask = ~0u) { emulator::meet(emulator::warps[emulator::current->number / 32]); }
static inline void __threadfence() { }
static inline void __threadfence_block() { }
template <class T> T __shfl_sync(unsigned mask, T x, int lane, int width = 32) {
    unsigned own = emulator::current->number & 31;
    return emulator::exchange(mask, x, (own & ~(width - 1)) + (lane & (width - 1)), true);
}
template <class T> T __shfl_xor_sync(unsigned mask, T x, int lanes, int width = 32) {
    unsigned own = emulator::current->number & 31, from = own ^ lanes;
    return emulator::exchange(mask, x, from, from / width == own / width);
}
template <class T> T __shfl_down_sync(unsigned mask, T x, unsigned lanes, int width = 32) {
    unsigned own = emulator::current->number & 31;
    return emulator::exchange(mask, x, own + lanes, (own & (width - 1)) + lanes < (unsigned) width);
}
template <class T> T __shfl_up_sync(unsigned mask, T x, unsigned lanes, int width = 32) {
    unsigned own = emulator::current->number & 31;
    return emulator::exchange(mask, x, own - lanes, (own & (width - 1)) >= lanes);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
    unsigned votes = 0;
    for (unsigned lane = 0; lane < 32; lane++) {
        unsigned own = emulator::current->number & 31;
        votes |= (unsigned) (emulator::exchange(mask, predicate != 0, lane,
                (emulator::current->number & ~31u) + lane < emulator::block_dim.x * emulator::block_dim.y) && 1) << lane;
        (void) own;
    }
    return votes & mask;
}
static inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

template <class T> T atomicAdd(T* at, T x) { T old = *at; *at = old + x; return old; }
template <class T> T atomicMax(T* at, T x) { T old = *at; *at = x > old ? x : old; return old; }
template <class T> T atomicMin(T* at, T x) { T old = *at; *at = x < old ? x : old; return old; }
template <class T> T atomicOr(T* at, T x) { T old = *at; *at = old | x; return old; }
template <class T> T atomicExch(T* at, T x) { T old = *at; *at = x; return old; }
template <class T> T atomicCAS(T* at, T expected, T x) { T old = *at; if (old == expected) *at = x; return old; }

template <class T> T __ldg(const T* at) { return *at; }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned) ((unsigned long long) a * b >> 32); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned) x); }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline float rsqrt(float x) { return 1 / __builtin_sqrtf(x); }
static inline double rsqrt(double x) { return 1 / __builtin_sqrt(x); }
static inline float rsqrtf(float x) { return 1 / __builtin_sqrtf(x); }
static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static inline long long min(long long a, long long b) { return a < b ? a : b; }
static inline long long max(long long a, long long b) { return a > b ? a : b; }

template <class To, class From> To emulator_bits(From x) { To y; __builtin_memcpy(&y, &x, sizeof(y)); return y; }
static inline unsigned __float_as_uint(float x) { return emulator_bits<unsigned>(x); }
static inline int __float_as_int(float x) { return emulator_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return emulator_bits<float>(x); }
static inline float __int_as_float(int x) { return emulator_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return emulator_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return emulator_bits<double>(x); }

#define MATH(name) \
    static inline float name(float x) { return __builtin_##name##f(x); } \
    static inline double name(double x) { return __builtin_##name(x); }
#define MATH_OF_TWO(name) \
    static inline float name(float x, float y) { return __builtin_##name##f(x, y); } \
    static inline double name(double x, double y) { return __builtin_##name(x, y); }
MATH(exp) MATH(exp2) MATH(expm1) MATH(log) MATH(log2) MATH(log1p) MATH(sqrt) MATH(sin) MATH(cos) MATH(tan) MATH(asin)
MATH(acos) MATH(atan) MATH(sinh) MATH(cosh) MATH(tanh) MATH(asinh) MATH(acosh) MATH(atanh) MATH(erf) MATH(floor)
MATH(ceil) MATH(rint) MATH(trunc) MATH(fabs)
MATH_OF_TWO(pow) MATH_OF_TWO(fmod) MATH_OF_TWO(copysign) MATH_OF_TWO(atan2) MATH_OF_TWO(fmax) MATH_OF_TWO(fmin)
static inline float fma(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

// Declares the addresses of a section, which the linker provides if there are any variables in it.
#define DECLARE_SECTION(name) \
    extern "C" char __start_##name[] __attribute__((weak, visibility("hidden"))); \
    extern "C" char __stop_##name[] __attribute__((weak, visibility("hidden")));

// Exports a kernel: dimensions are grid x y z, the number of threads, a seed, and the number of bytes of arguments. The
// result is 0 or an Error.
#define EMULATE(prefix, kernel, bound, section) \
    static const char* kernel##_arguments; \
    static void kernel##_thread() { emulator::call(kernel, kernel##_arguments); } \
    extern "C" __attribute__((visibility("default"))) int prefix##kernel##_launch(const unsigned* dimensions, \
            const char* arguments) { \
        kernel##_arguments = arguments; \
        emulator::entry = kernel##_thread; \
        return emulator::run_grid(dimensions, bound, emulator::size_of(kernel), __start_##section, __stop_##section); \
    }
