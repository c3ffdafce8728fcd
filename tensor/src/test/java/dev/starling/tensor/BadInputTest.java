package dev.starling.tensor;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.starling.tensor.TensorException.Problem;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What a caller can get wrong is a typed error, before anything runs: operation, operands, requirement, remedy. */
class BadInputTest {
    private static final Shape MATRIX = Shape.of(2, 3);

    /**
     * A request that must be refused.
     *
     * @param call the request
     * @param problem what the error says is wrong
     * @param op which operation it names
     * @param parts what its message must hold, beside the operation
     */
    private record Bad(Supplier<?> call, Problem problem, String op, String... parts) {
        @Override
        public String toString() {
            return op + ": " + problem;
        }
    }

    private static Tensor ones(long... shape) {
        return Tensor.ones(shape);
    }

    private static Tensor whole(long... shape) {
        return Tensor.full(DType.I32, 1, shape);
    }

    private static Tensor elsewhere() {
        return Device.with(Device.reference(), () -> ones(2, 3));
    }

    private static Bad shape(Supplier<?> call, String op, String... parts) {
        return new Bad(call, Problem.SHAPE, op, parts);
    }

    private static Bad dtype(Supplier<?> call, String op, String... parts) {
        return new Bad(call, Problem.DTYPE, op, parts);
    }

    static Stream<Bad> shapes() {
        return Stream.of(
                shape(() -> ones(2, 3).add(ones(2, 4)), "add", "f32[2, 3]@cpu", "f32[2, 4]@cpu", "broadcast"),
                shape(() -> ones(2, 3).matmul(ones(2, 3)), "matMul", "f32[2, 3]@cpu"),
                shape(() -> Functions.linear(ones(4, 5), ones(2, 3), null), "linear", "f32[4, 5]", "f32[2, 3]"),
                shape(() -> Functions.linear(ones(4, 3), ones(2, 3), ones(3)), "linear", "f32[3]"),
                shape(() -> ones(2, 3).reshape(4, 2), "reshape", "f32[2, 3]"),
                shape(() -> ones(2, 3).expand(5, 3), "expand", "f32[2, 3]"),
                shape(() -> Shaping.concat(0, ones(2, 3), ones(2, 4)), "concat", "f32[2, 4]"),
                shape(() -> Convolutions.conv2d(ones(1, 3, 8, 8), ones(4, 2, 3, 3), null, 1, 0, 1, 1), "conv",
                        "f32[1, 3, 8, 8]", "f32[4, 2, 3, 3]"),
                shape(() -> Convolutions.conv2d(ones(1, 3, 4, 4), ones(4, 3, 5, 5), null, 1, 0, 1, 1), "conv",
                        "kernel must fit", "f32[4, 3, 5, 5]"),
                shape(() -> Convolutions.conv2d(ones(3, 8, 8), ones(4, 3, 3, 3), null, 1, 0, 1, 1), "conv", "rank"),
                shape(() -> Pools.maxPool2d(ones(1, 1, 2, 2), 3, 1, 0), "maxPool", "must fit", "f32[1, 1, 2, 2]"),
                shape(() -> Norms.batchNorm(ones(1, 4), ones(4), ones(4), 1e-5), "batchNorm", "f32[1, 4]"),
                shape(() -> Norms.batchNorm(ones(2, 4), ones(3), ones(4), 1e-5), "batchNorm", "f32[3]"),
                shape(() -> Norms.layerNorm(ones(2, 4), ones(3), ones(3), 1e-5), "layerNorm", "f32[2, 4]"),
                shape(() -> Losses.crossEntropy(ones(2, 4), Tensor.of(new long[] {0})), "crossEntropy", "f32[2, 4]"),
                shape(() -> Losses.crossEntropy(ones(2, 4), ones(2)), "crossEntropy", "f32[2]"),
                shape(() -> Losses.mseLoss(ones(2, 1), ones(2), Losses.Reduce.MEAN), "mseLoss", "f32[2, 1]"),
                shape(() -> Tensor.of(new float[5], 2, 3), "copyOf", "24 bytes", "20"));
    }

    static Stream<Bad> types() {
        return Stream.of(
                dtype(() -> Functions.linear(whole(4, 3), ones(2, 3), null), "linear", "i32[4, 3]"),
                dtype(() -> Functions.linear(ones(4, 3), ones(2, 3).to(DType.F64), null), "linear", "f64[2, 3]"),
                dtype(() -> Convolutions.conv2d(whole(1, 1, 4, 4), whole(1, 1, 3, 3), null, 1, 0, 1, 1), "conv",
                        "i32[1, 1, 4, 4]", "floating"),
                dtype(() -> Norms.batchNorm(whole(2, 4), whole(4), whole(4), 1e-5), "batchNorm", "i32[2, 4]"),
                dtype(() -> Functions.embedding(ones(5, 2), ones(3)), "take", "f32[3]", "i64"),
                dtype(() -> ones(2).where(ones(2), ones(2)), "where", "f32[2]", "bool"));
    }

    static Stream<Bad> devices() {
        return Stream.of(
                new Bad(() -> ones(2, 3).add(elsewhere()), Problem.DEVICE, "add", "f32[2, 3]@cpu",
                        "f32[2, 3]@reference", "to(device)"),
                new Bad(() -> ones(2, 3).matmul(elsewhere().t()), Problem.DEVICE, "matMul", "@reference"),
                new Bad(() -> ones(2).to(Device.cuda(0)), Problem.DEVICE, "device cuda:0", "starling-cuda"),
                new Bad(() -> Device.with(Device.of("cpu", 7), () -> ones(2)), Problem.DEVICE, "device cpu:7",
                        "smaller index"));
    }

    static Stream<Bad> arguments() {
        return Stream.of(
                new Bad(() -> Shape.of(2, -1), Problem.ARGUMENT, "shape", "-1"),
                new Bad(() -> Shape.of(1L << 40, 1L << 40), Problem.ARGUMENT, "shape", "1099511627776"),
                new Bad(() -> Shape.of(1L << 62, 0), Problem.ARGUMENT, "shape", "elements"),
                new Bad(() -> ones(2, 3).sum(2), Problem.ARGUMENT, "shape", "axis 2"),
                new Bad(() -> ones(2, 3).narrow(1, 2, 2), Problem.SHAPE, "slice", "f32[2, 3]"),
                new Bad(() -> Convolutions.conv2d(ones(1, 3, 8, 8), ones(4, 3, 3, 3), null, 0, 0, 1, 1),
                        Problem.ARGUMENT, "conv", "stride"),
                new Bad(() -> Convolutions.conv2d(ones(1, 4, 8, 8), ones(3, 2, 3, 3), null, 1, 0, 1, 2),
                        Problem.ARGUMENT, "conv", "groups"),
                new Bad(() -> Tensor.zeros(1L << 50), Problem.MEMORY, "allocate", "4503599627370496 bytes"));
    }

    @ParameterizedTest
    @MethodSource({"shapes", "types", "devices", "arguments"})
    void isATypedError(Bad bad) {
        try (Scope scope = Scope.open()) {
            assertThatThrownBy(bad.call::get).isInstanceOfSatisfying(TensorException.class, e -> {
                assertThat(e.problem()).as(e.getMessage()).isEqualTo(bad.problem);
                assertThat(e.op()).as(e.getMessage()).isEqualTo(bad.op);
                assertThat(e.getMessage()).startsWith(bad.op + ": ").contains(bad.parts).endsWith(e.remedy());
                assertThat(e.remedy()).isNotBlank();
                assertThat(e.getMessage().lines()).hasSize(1);
            });
            assertThat(ones(2, 3).shape()).isEqualTo(MATRIX);
        }
    }
}
