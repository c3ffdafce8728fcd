// Random numbers as a function of seed, counter and position: a thread computes the four elements of each of two blocks
// of Philox 4x32-10 (Salmon et al., 2011), 256 apart. Every step is rounded exactly, and nothing is fused except where
// the code says so, so that all devices compute the same bits. Macro: T, the type.

struct Block { u32 word[4]; };

#ifdef __CUDACC__
// Inline assembly, because the compiler would otherwise add 0 times the higher halves.
DEVICE u64 product(u32 a, u32 b) { u64 c; asm("mul.wide.u32 %0, %1, %2;" : "=l"(c) : "r"(a), "r"(b)); return c; }
#else
DEVICE u64 product(u32 a, u32 b) { return (u64) a * b; }
#endif

DEVICE Block philox(u64 seed, u64 counter) {
    u32 k0 = (u32) seed, k1 = (u32) (seed >> 32);
    u32 c0 = (u32) counter, c1 = (u32) (counter >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        u64 p0 = product(c0, 0xD2511F53u);
        u64 p1 = product(c2, 0xCD9E8D57u);
        c0 = (u32) (p1 >> 32) ^ c1 ^ k0;
        c1 = (u32) p1;
        c2 = (u32) (p0 >> 32) ^ c3 ^ k1;
        c3 = (u32) p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return Block{{c0, c1, c2, c3}};
}

// On [0, 1): the upper 24 bits.
DEVICE f32 uniform_of(u32 bits) { return __fmul_rn((f32) (bits >> 8), 0x1p-24f); }

// The natural logarithm of k / 2^24 for k from 1 to 2^24.
DEVICE f32 logarithm(u32 k) {
    const i32 half = 0x3F3504F3;
    i32 shifted = (i32) bits_of((f32) k) - half;
    f32 exponent = (f32) ((shifted >> 23) - 24);
    f32 f = __fsub_rn(float_of((u32) ((shifted & 0x7FFFFF) + half)), 1.0f);
    f32 p = 0.06746648252010345f;
    p = __fmaf_rn(p, f, -0.11675655096769333f);
    p = __fmaf_rn(p, f, 0.11888160556554794f);
    p = __fmaf_rn(p, f, -0.1240558847784996f);
    p = __fmaf_rn(p, f, 0.14219552278518677f);
    p = __fmaf_rn(p, f, -0.1666799634695053f);
    p = __fmaf_rn(p, f, 0.2000211924314499f);
    p = __fmaf_rn(p, f, -0.25000008940696716f);
    p = __fmaf_rn(p, f, 0.3333331346511841f);
    p = __fmaf_rn(p, f, -0.5f);
    return __fmaf_rn(exponent, 0.69314718056f, __fmaf_rn(p, __fmul_rn(f, f), f));
}

// sin(r pi / 2) and cos(r pi / 2) for |r| <= 1/2.
DEVICE f32 sine_of_quarters(f32 r) {
    f32 s = __fmul_rn(r, r);
    f32 p = -0.00460165785625577f;
    p = __fmaf_rn(p, s, 0.07968003302812576f);
    p = __fmaf_rn(p, s, -0.6459634900093079f);
    p = __fmaf_rn(p, s, 1.5707963705062866f);
    return __fmul_rn(p, r);
}

DEVICE f32 cosine_of_quarters(f32 r) {
    f32 s = __fmul_rn(r, r);
    f32 p = 0.0009033629903569818f;
    p = __fmaf_rn(p, s, -0.020859936252236366f);
    p = __fmaf_rn(p, s, 0.2536691725254059f);
    p = __fmaf_rn(p, s, -1.2337005138397217f);
    return __fmaf_rn(p, s, 1.0f);
}

// Standard normal by Box and Muller from the bits of a pair of lanes.
DEVICE f32 normal_of(u32 even_bits, u32 odd_bits, bool odd) {
    f32 radius = __fsqrt_rn(__fmul_rn(-2.0f, logarithm((even_bits >> 8) + 1)));
    i32 turn = (i32) (odd_bits >> 8);
    i32 quarter = (turn + (1 << 21)) >> 22;
    f32 rest = __fmul_rn((f32) (turn - (quarter << 22)), 0x1p-22f);
    bool sine = ((quarter & 1) != 0) != odd;
    bool negative = ((odd ? quarter : quarter + 1) & 2) != 0;
    f32 value = __fmul_rn(radius, sine ? sine_of_quarters(rest) : cosine_of_quarters(rest));
    return negative ? -value : value;
}

// Writes the elements of a thread's blocks, each value(lane, block, result of read(i)), where i is the block's first.
template <class Read, class Value> DEVICE void draw(T* y, i64 n, u64 seed, u64 counter, Read read, Value value) {
    u64 number = (u64) blockIdx.x * 512 + threadIdx.x;
    decltype(read(i64(0))) given[2] = {read((i64) number * 4), read((i64) (number + 256) * 4)};
    for (int turn = 0; turn < 2; turn++, number += 256) {
        i64 i = (i64) number * 4;
        if (i >= n) {
            return;
        }
        Block block = philox(seed, counter + number);
        decltype(value(0, block, given[0])) values[4];
        for (int lane = 0; lane < 4; lane++) {
            values[lane] = value(lane, block, given[turn]);
        }
        Vec<T, 4> four = narrow_all<T>(values);
        if (i + 4 <= n) {
            *(Vec<T, 4>*) (y + i) = four;
        } else {
            for (int lane = 0; lane < 4; lane++) {
                if (i + lane < n) {
                    y[i + lane] = four.at[lane];
                }
            }
        }
    }
}
template <class Value> DEVICE void draw(T* y, i64 n, u64 seed, u64 counter, Value value) {
    draw(y, n, seed, counter, [](i64 i) { return 0; }, [=](int lane, const Block& block, int) {
        return value(lane, block);
    });
}

extern "C" __global__ void uniform(T* y, i64 n, u64 seed, u64 counter, f32 low, f32 range, f32 below) {
    draw(y, n, seed, counter, [=](int lane, const Block& block) {
        f32 value = __fmaf_rn(uniform_of(block.word[lane]), range, low);
        return value < below ? value : below;
    });
}

extern "C" __global__ void normal(T* y, i64 n, u64 seed, u64 counter, f32 mean, f32 deviation) {
    draw(y, n, seed, counter, [=](int lane, const Block& block) {
        int even = lane & 2;
        return __fmaf_rn(normal_of(block.word[even], block.word[even + 1], lane & 1), deviation, mean);
    });
}

extern "C" __global__ void bernoulli(T* y, i64 n, u64 seed, u64 counter, f32 probability) {
    draw(y, n, seed, counter, [=](int lane, const Block& block) {
        return (i64) (uniform_of(block.word[lane]) < probability);
    });
}

extern "C" __global__ void integers(T* y, i64 n, u64 seed, u64 counter, i64 low, u64 range) {
    draw(y, n, seed, counter, [=](int lane, const Block& block) {
        return (i64) ((u64) low + (block.word[lane] * range >> 32));
    });
}

// Dropped elements become 0, even if they are not finite.
extern "C" __global__ void dropout(T* y, i64 n, u64 seed, u64 counter, f32 probability, f64 scale, const T* x) {
    typedef decltype(widen(T())) C;
    draw(y, n, seed, counter, [=](i64 i) {
        Vec<T, 4> four = {};
        if (i + 4 <= n && (u64) x % sizeof(four) == 0) {
            return *(const Vec<T, 4>*) (x + i);
        }
        for (int lane = 0; lane < 4; lane++) {
            if (i + lane < n) {
                four.at[lane] = x[i + lane];
            }
        }
        return four;
    }, [=](int lane, const Block& block, const Vec<T, 4>& four) {
        return uniform_of(block.word[lane]) < probability ? C(0) : widen_at(four, lane) * (C) scale;
    });
}
