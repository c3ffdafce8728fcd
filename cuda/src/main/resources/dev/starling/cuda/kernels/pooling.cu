// Windows over three spatial dimensions. Gradients are gathered: a thread sums, in the order of windows, the
// contributions to one element of x. Macros: T (type in memory), C (type to compute in).

// Sizes, window and strides (of x, y and the positions of maxima); there are always three spatial dimensions.
struct Problem {
    u32 images, channels, in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
    i64 x[5], y[5], places[5];
};

// The element that a thread works on: its plane has sizes `size`; threads follow the order of the result's memory.
struct Element {
    u32 image, channel;
    i32 at[3];

    __device__ __forceinline__ i64 offset(const i64 (&stride)[5]) const {
        return plane(stride) + at[0] * stride[2] + at[1] * stride[3] + at[2] * stride[4];
    }
    __device__ __forceinline__ i64 plane(const i64 (&stride)[5]) const {
        return image * stride[0] + channel * stride[1];
    }
};

DEVICE Element element(u32 i, u32 channels, const u32 (&size)[3], bool channels_last) {
    Element e;
    if (channels_last) {
        e.channel = i % channels;
        i /= channels;
    }
    e.at[2] = i % size[2];
    i /= size[2];
    e.at[1] = i % size[1];
    i /= size[1];
    e.at[0] = i % size[0];
    i /= size[0];
    if (!channels_last) {
        e.channel = i % channels;
        i /= channels;
    }
    e.image = i;
    return e;
}

// Calls f(offset in x's plane, position in it), in row-major order, for the elements of the window of y's element that
// are not padding; returns how many elements of the window lie in the plane or its padding.
template <class F> DEVICE u32 each_inside(const Problem& p, const i32 (&at)[3], const F& f) {
    u32 padded = 0;
    i32 i[3];
    for (u32 a = 0; a < p.kernel[0]; a++) {
        i[0] = at[0] * (i32) p.stride[0] - (i32) p.padding[0] + (i32) (a * p.dilation[0]);
        for (u32 b = 0; b < p.kernel[1]; b++) {
            i[1] = at[1] * (i32) p.stride[1] - (i32) p.padding[1] + (i32) (b * p.dilation[1]);
            for (u32 c = 0; c < p.kernel[2]; c++) {
                i[2] = at[2] * (i32) p.stride[2] - (i32) p.padding[2] + (i32) (c * p.dilation[2]);
                bool inside = true;
                bool counts = true;
                for (int d = 0; d < 3; d++) {
                    inside &= i[d] >= 0 && i[d] < (i32) p.in[d];
                    counts &= i[d] < (i32) (p.in[d] + p.padding[d]);
                }
                padded += counts;
                if (inside) {
                    f(i[0] * p.x[2] + i[1] * p.x[3] + i[2] * p.x[4],
                        (i[0] * (i32) p.in[1] + i[1]) * (i32) p.in[2] + i[2]);
                }
            }
        }
    }
    return padded;
}

// Calls f(element of y) for the windows that contain x's element, in row-major order. Skips positions in the kernel
// that lead to no window: of a kernel as large as the plane, all but one.
template <class F> DEVICE void each_window(const Problem& p, Element x, const F& f) {
    Element y = x;
    i32 first[3], last[3], step[3];
    for (int d = 0; d < 3; d++) {
        i32 from = x.at[d] + (i32) p.padding[d], dilation = (i32) p.dilation[d], stride = (i32) p.stride[d];
        i32 beyond = from - (i32) (p.out[d] - 1) * stride;
        first[d] = min((i32) p.kernel[d] - 1, from / dilation);
        last[d] = beyond <= 0 ? 0 : (beyond - 1) / dilation + 1;
        step[d] = dilation == 1 ? stride : 1;
        i32 rest = (from - first[d]) % stride;
        if (dilation == 1 && rest > 0) {
            first[d] -= stride - rest;
        }
    }
    for (i32 a = first[0]; a >= last[0]; a -= step[0]) {
        for (i32 b = first[1]; b >= last[1]; b -= step[1]) {
            for (i32 c = first[2]; c >= last[2]; c -= step[2]) {
                i32 k[3] = {a, b, c};
                bool inside = true;
                for (int d = 0; d < 3; d++) {
                    i32 from = x.at[d] + (i32) p.padding[d] - k[d] * (i32) p.dilation[d];
                    y.at[d] = from / (i32) p.stride[d];
                    inside &= y.at[d] * (i32) p.stride[d] == from;
                }
                if (inside) {
                    f(y);
                }
            }
        }
    }
}

// Returns how many elements of the window of y's element lie in the plane or, if `padded`, in it and its padding.
DEVICE u32 elements(const Problem& p, const i32 (&at)[3], bool padded) {
    u32 n = 1;
    for (int d = 0; d < 3; d++) {
        i32 begin = at[d] * (i32) p.stride[d] - (i32) p.padding[d];
        i32 before = padded ? 0 : -begin, end = (i32) (p.in[d] + (padded ? p.padding[d] : 0)) - begin;
        i32 dilation = (i32) p.dilation[d];
        i32 skipped = before <= 0 ? 0 : (before - 1) / dilation + 1;
        i32 reached = end <= 0 ? 0 : min((i32) p.kernel[d], (end - 1) / dilation + 1);
        n *= (u32) max(0, reached - skipped);
    }
    return n;
}

extern "C" __global__ void max_pool(T* y, i32* places, const T* x, u32 count, bool channels_last, Problem p) {
    u32 i = (u32) THREAD;
    if (i >= count) {
        return;
    }
    Element e = element(i, p.channels, p.out, channels_last);
    const T* plane = x + e.plane(p.x);
    bool first = true;
    T value = {};
    C best = 0;
    i32 best_place = 0;
    each_inside(p, e.at, [&](i64 offset, i32 place) {
        T candidate = plane[offset];
        C c = widen(candidate);
        if (first || !is_nan(best) && (is_nan(c) || c > best)) {
            first = false;
            value = candidate;
            best = c;
            best_place = place;
        }
    });
    y[e.offset(p.y)] = value;
    places[e.offset(p.places)] = best_place;
}

extern "C" __global__ void average_pool(T* y, const T* x, u32 count, bool channels_last, bool count_padding,
        Problem p) {
    u32 i = (u32) THREAD;
    if (i >= count) {
        return;
    }
    Element e = element(i, p.channels, p.out, channels_last);
    const T* plane = x + e.plane(p.x);
    // As a single sum in f32, the mean of a million equal elements would be wrong by a percent.
    f64 sums = 0;
    C sum = 0;
    u32 inside = 0;
    u32 padded = each_inside(p, e.at, [&](i64 offset, i32 place) {
        sum += C(widen(plane[offset]));
        if (++inside % 256 == 0) {
            sums += sum;
            sum = 0;
        }
    });
    sum = C(sums + sum);
    y[e.offset(p.y)] = narrow<T>(sum / C(count_padding ? padded : inside));
}

// Here y stands for its gradient g. Positions have type INDEX. If one is outside of its window, all are searched.
extern "C" __global__ void max_pool_gradient(T* x, const T* g, const INDEX* places, const u32* stray, u32 count,
        bool channels_last, Problem p) {
    u32 i = (u32) THREAD;
    if (i >= count) {
        return;
    }
    Element e = element(i, p.channels, p.in, channels_last);
    i64 own = ((i64) e.at[0] * p.in[1] + e.at[1]) * p.in[2] + e.at[2];
    C sum = 0;
    auto add = [&](const Element& window) {
        if ((i64) places[window.offset(p.places)] == own) {
            sum += C(widen(g[window.offset(p.y)]));
        }
    };
    if (*stray) {
        for (u32 i = 0; i < p.out[0] * p.out[1] * p.out[2]; i++) {
            Element window = element(i, 1, p.out, false);
            window.image = e.image;
            window.channel = e.channel;
            add(window);
        }
    } else {
        each_window(p, e, add);
    }
    x[e.offset(p.x)] = narrow<T>(sum);
}

// Reports positions outside of x's plane, and sets `stray` if one is outside of its window.
extern "C" __global__ void check_places(const INDEX* places, u32* stray, u32 count, Fault fault, Problem p) {
    u32 i = (u32) THREAD;
    if (i < count) {
        Element e = element(i, p.channels, p.out, false);
        i64 place = places[e.offset(p.places)];
        if (place < 0 || place >= (i64) p.in[0] * p.in[1] * p.in[2]) {
            report(fault, place, i);
        }
        bool own = false;
        each_inside(p, e.at, [&](i64 offset, i32 at) { own |= at == place; });
        if (!own) {
            *stray = 1;
        }
    }
}

extern "C" __global__ void average_pool_gradient(T* x, const T* g, u32 count, bool channels_last, bool count_padding,
        Problem p) {
    u32 i = (u32) THREAD;
    if (i >= count) {
        return;
    }
    Element e = element(i, p.channels, p.in, channels_last);
    C sum = 0;
    each_window(p, e, [&](const Element& window) {
        sum += C(widen(g[window.offset(p.y)])) / C(elements(p, window.at, count_padding));
    });
    x[e.offset(p.x)] = narrow<T>(sum);
}
