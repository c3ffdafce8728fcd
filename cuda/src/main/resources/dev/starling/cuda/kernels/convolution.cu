// Convolutions as matrix products whose elements are located in the operands as they are read, with any strides. A
// block computes 64 × 64 results of one group. Macros: T (type in memory), C (type to sum in), RELU (0 or 1).
#include "tiles.cuh"

// Sizes and strides; there are always three spatial dimensions, the outermost first.
struct Problem {
    u32 images, groups, channels, outputs; // channels and outputs of a group
    u32 in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
    i64 x[5], w[5], y[5];

    __device__ __forceinline__ u32 in_plane() const { return in[0] * in[1] * in[2]; }
    __device__ __forceinline__ u32 out_plane() const { return out[0] * out[1] * out[2]; }
    __device__ __forceinline__ u32 kernel_plane() const { return kernel[0] * kernel[1] * kernel[2]; }
};

// The image and the position of a pixel.
struct Pixel {
    u32 image;
    i32 at[3];
};

DEVICE Pixel pixel(u32 i, const u32 (&size)[3]) {
    Pixel p;
    p.at[2] = i % size[2];
    i /= size[2];
    p.at[1] = i % size[1];
    i /= size[1];
    p.at[0] = i % size[0];
    p.image = i / size[0];
    return p;
}

DEVICE i64 offset(const Pixel& p, const i64 (&stride)[5]) {
    return p.image * stride[0] + p.at[0] * stride[2] + p.at[1] * stride[3] + p.at[2] * stride[4];
}

// Moves from a pixel of y to the pixel of x that meets a kernel element; returns false in the padding.
DEVICE bool to_input(const Problem& c, Pixel& p, u32 element) {
    Pixel k = pixel(element, c.kernel);
    bool inside = true;
    for (int d = 0; d < 3; d++) {
        p.at[d] = p.at[d] * (i32) c.stride[d] - (i32) c.padding[d] + k.at[d] * (i32) c.dilation[d];
        inside &= p.at[d] >= 0 && p.at[d] < (i32) c.in[d];
    }
    return inside;
}

// Moves from a pixel of x to the pixel of y that meets it with a kernel element; returns false if there is none.
DEVICE bool to_output(const Problem& c, Pixel& p, u32 element) {
    Pixel k = pixel(element, c.kernel);
    bool inside = true;
    for (int d = 0; d < 3; d++) {
        i32 at = p.at[d] + (i32) c.padding[d] - k.at[d] * (i32) c.dilation[d];
        p.at[d] = at / (i32) c.stride[d];
        inside &= at >= 0 && p.at[d] * (i32) c.stride[d] == at && p.at[d] < (i32) c.out[d];
    }
    return inside;
}

// The offset of a kernel element in the weight.
DEVICE i64 weight_offset(const Problem& c, u32 element) {
    Pixel k = pixel(element, c.kernel);
    return k.at[0] * c.w[2] + k.at[1] * c.w[3] + k.at[2] * c.w[4];
}

#define TILES_OF(columns) \
    u32 tiles = ((columns) + TILE - 1) / TILE; \
    u32 row = blockIdx.x / tiles * TILE; \
    u32 column = blockIdx.x % tiles * TILE; \
    C sum[4][4] = {}

// Rows are pixels of y, columns its channels; the depth is kernel elements and channels of x.
extern "C" __global__ void __launch_bounds__(256) forward(T* y, const T* x, const T* w, const T* bias, i64 bias_step,
        Problem c) {
    u32 group = blockIdx.y;
    u32 rows = c.images * c.out_plane();
    TILES_OF(c.outputs);
    tile_product(sum, (i64) 0, (i64) c.kernel_plane() * c.channels,
        [&](u32 i, i64 d) {
            Pixel p = pixel(row + i, c.out);
            bool inside = row + i < rows && to_input(c, p, (u32) d / c.channels);
            return inside ? C(widen(x[offset(p, c.x) + (group * c.channels + (u32) d % c.channels) * c.x[1]])) : C(0);
        }, c.x[1] == 1,
        [&](i64 d, u32 j) {
            return column + j < c.outputs ? C(widen(w[(group * c.outputs + column + j) * c.w[0]
                    + (u32) d % c.channels * c.w[1] + weight_offset(c, (u32) d / c.channels)])) : C(0);
        }, true);
    tile_results(sum, row, column, rows, c.outputs, [&](i64 i, i64 j, C value) {
        i64 o = group * c.outputs + j;
        C shifted = value + (bias ? C(widen(bias[o * bias_step])) : C(0));
        y[offset(pixel((u32) i, c.out), c.y) + o * c.y[1]] = narrow<T>(RELU ? rectified(shifted) : shifted);
    });
}

// Rows are pixels of x, columns its channels; the depth is kernel elements and channels of y.
extern "C" __global__ void __launch_bounds__(256) input_gradient(T* x, const T* g, const T* w, Problem c) {
    u32 group = blockIdx.y;
    u32 rows = c.images * c.in_plane();
    TILES_OF(c.channels);
    tile_product(sum, (i64) 0, (i64) c.kernel_plane() * c.outputs,
        [&](u32 i, i64 d) {
            Pixel p = pixel(row + i, c.in);
            bool inside = row + i < rows && to_output(c, p, (u32) d / c.outputs);
            return inside ? C(widen(g[offset(p, c.y) + (group * c.outputs + (u32) d % c.outputs) * c.y[1]])) : C(0);
        }, c.y[1] == 1,
        [&](i64 d, u32 j) {
            return column + j < c.channels ? C(widen(w[(group * c.outputs + (u32) d % c.outputs) * c.w[0]
                    + (column + j) * c.w[1] + weight_offset(c, (u32) d / c.outputs)])) : C(0);
        }, false);
    tile_results(sum, row, column, rows, c.channels, [&](i64 i, i64 j, C value) {
        x[offset(pixel((u32) i, c.in), c.x) + (group * c.channels + j) * c.x[1]] = narrow<T>(value);
    });
}

// Rows are channels of y, columns kernel elements and channels of x; the depth is a share of the pixels of y. There is
// a share for each block along z. Sums go to parts [shares, groups, outputs, kernel elements, channels].
extern "C" __global__ void __launch_bounds__(256) weight_gradient(C* parts, const T* x, const T* g, Problem c,
        i64 share) {
    u32 group = blockIdx.y;
    u32 columns = c.kernel_plane() * c.channels;
    i64 pixels = (i64) c.images * c.out_plane();
    i64 from = blockIdx.z * share;
    TILES_OF(columns);
    tile_product(sum, from, min(from + share, pixels),
        [&](u32 i, i64 d) {
            Pixel p = pixel((u32) d, c.out);
            return row + i < c.outputs ? C(widen(g[offset(p, c.y) + (group * c.outputs + row + i) * c.y[1]])) : C(0);
        }, c.y[1] != 1,
        [&](i64 d, u32 j) {
            Pixel p = pixel((u32) d, c.out);
            bool inside = column + j < columns && to_input(c, p, (column + j) / c.channels);
            return inside ? C(widen(x[offset(p, c.x) + (group * c.channels + (column + j) % c.channels) * c.x[1]]))
                    : C(0);
        }, c.x[1] != 1);
    tile_results(sum, row, column, c.outputs, columns, [&](i64 i, i64 j, C value) {
        parts[(((i64) blockIdx.z * c.groups + group) * c.outputs + i) * columns + j] = value;
    });
}

// Adds the shares of the weight's gradient, in order.
extern "C" __global__ void add_shares(T* w, const C* parts, u32 shares, Problem c) {
    u32 columns = c.kernel_plane() * c.channels;
    i64 count = (i64) c.groups * c.outputs * columns;
    i64 i = (i64) THREAD;
    if (i >= count) {
        return;
    }
    C sum = 0;
    for (u32 s = 0; s < shares; s++) {
        sum += parts[s * count + i];
    }
    u32 column = (u32) (i % columns);
    w[i / columns * c.w[0] + column % c.channels * c.w[1] + weight_offset(c, column / c.channels)] = narrow<T>(sum);
}
