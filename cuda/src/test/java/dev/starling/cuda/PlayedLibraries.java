package dev.starling.cuda;

import dev.starling.cuda.blas.Blas;
import dev.starling.cuda.blas.MatrixCall;
import dev.starling.cuda.dnn.ConvolutionCall;
import dev.starling.cuda.dnn.Convolver;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.tensor.DType;
import dev.starling.tensor.host.HostMemory;

/** The libraries of an emulated GPU: slow, by the definitions in their contracts, on the host's memory. */
final class PlayedLibraries implements Libraries {
    @Override
    public Blas blas(Gpu gpu, Gpu.Stream stream) {
        return new ColumnMajor();
    }

    @Override
    public Convolver convolver(Gpu gpu, Gpu.Stream stream) {
        return new ChannelsLastConvolver();
    }

    private static double get(DType type, long address, long i) {
        return HostMemory.getDouble(type, address + i * type.bytes());
    }

    private static void put(DType type, long address, long i, double value) {
        HostMemory.putDouble(type, address + i * type.bytes(), value);
    }

    /** Products of column-major matrices; what cuBLASLt would refuse is an error. */
    private static final class ColumnMajor implements Blas {
        @Override
        public boolean takes(DType type) {
            return type.isFloating();
        }

        @Override
        public boolean multiply(MatrixCall c, long a, long b, long bias, long y) {
            require(c.left().leading() >= (c.left().transposed() ? c.k() : c.m()), "leading dimension of left");
            require(c.right().leading() >= (c.right().transposed() ? c.n() : c.k()), "leading dimension of right");
            require((a | b | y) % c.alignment() == 0, "alignment");
            require(c.bias() == (bias != 0), "bias");
            for (long i = 0; i < c.batches() * c.m() * c.n(); i++) {
                long batch = i / (c.m() * c.n());
                long row = i % c.m();
                long column = i / c.m() % c.n();
                double sum = c.bias() ? get(c.type(), bias, row) : 0;
                for (long d = 0; d < c.k(); d++) {
                    sum += get(c.type(), b, at(c.left(), batch, row, d)) * get(c.type(), a,
                            at(c.right(), batch, d, column));
                }
                put(c.type(), y, batch * c.resultBatch() + row + column * c.m(), c.relu() && sum <= 0 ? 0 : sum);
            }
            return true;
        }

        private static long at(MatrixCall.Operand operand, long batch, long row, long column) {
            return batch * operand.batch() + (operand.transposed() ? column + row * operand.leading()
                    : row + column * operand.leading());
        }

        private static void require(boolean holds, String what) {
            if (!holds) {
                throw new AssertionError("a library would refuse the " + what);
            }
        }
    }

    /** Convolutions as sums over triples of elements. */
    private static final class ChannelsLastConvolver implements Convolver {
        private interface Triple {
            void accept(int x, int weight, int y);
        }

        @Override
        public boolean takes(DType type) {
            return type.isFloating();
        }

        @Override
        public boolean forward(ConvolutionCall c, long x, long weight, long y) {
            double[] sums = new double[c.images() * c.outHeight() * c.outWidth() * c.outputs()];
            each(c, (i, k, o) -> sums[o] += get(c.type(), x, i) * get(c.type(), weight, k));
            return store(c.type(), sums, y);
        }

        @Override
        public boolean inputGradient(ConvolutionCall c, long g, long weight, long x) {
            double[] sums = new double[c.images() * c.height() * c.width() * c.channels()];
            each(c, (i, k, o) -> sums[i] += get(c.type(), g, o) * get(c.type(), weight, k));
            return store(c.type(), sums, x);
        }

        @Override
        public boolean weightGradient(ConvolutionCall c, long x, long g, long weight) {
            double[] sums = new double[c.outputs() * c.kernelHeight() * c.kernelWidth() * (c.channels() / c.groups())];
            each(c, (i, k, o) -> sums[k] += get(c.type(), x, i) * get(c.type(), g, o));
            return store(c.type(), sums, weight);
        }

        private static boolean store(DType type, double[] sums, long to) {
            for (int i = 0; i < sums.length; i++) {
                put(type, to, i, sums[i]);
            }
            return true;
        }

        private static void each(ConvolutionCall c, Triple triple) {
            int own = c.channels() / c.groups();
            int outputs = c.images() * c.outHeight() * c.outWidth() * c.outputs();
            int kernel = c.kernelHeight() * c.kernelWidth() * own;
            for (int y = 0; y < outputs; y++) {
                int o = y % c.outputs();
                int pixel = y / c.outputs();
                int image = pixel / (c.outHeight() * c.outWidth());
                for (int k = 0; k < kernel; k++) {
                    int row = pixel / c.outWidth() % c.outHeight() * c.strideHeight() - c.paddingHeight()
                            + k / own / c.kernelWidth() * c.dilationHeight();
                    int column = pixel % c.outWidth() * c.strideWidth() - c.paddingWidth()
                            + k / own % c.kernelWidth() * c.dilationWidth();
                    if (row >= 0 && row < c.height() && column >= 0 && column < c.width()) {
                        int channel = o / (c.outputs() / c.groups()) * own + k % own;
                        triple.accept(((image * c.height() + row) * c.width() + column) * c.channels() + channel,
                                o * kernel + k, y);
                    }
                }
            }
        }
    }
}
