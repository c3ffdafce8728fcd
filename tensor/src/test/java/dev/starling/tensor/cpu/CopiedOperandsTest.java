package dev.starling.tensor.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.tensor.Generator;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.op.Contraction;
import dev.starling.tensor.op.Convolution;
import dev.starling.tensor.op.Convolution.Geometry;
import dev.starling.tensor.op.Epilogue;
import dev.starling.tensor.op.Op;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Kernels free the copies that they make of operands: a copy of which a kernel knows only the address, and that is
 * never freed, may be taken for unreachable and freed while the kernel reads it.
 */
class CopiedOperandsTest {
    static Stream<Arguments> operations() {
        Geometry near = Geometry.of(2, 1, 1, 1, 1);
        Geometry stepped = Geometry.of(2, 2, 1, 1, 1);
        Geometry far = Geometry.of(2, 1, 5, 1, 1);
        return Stream.of(
                // A left operand or a bias that kernels cannot read as it is has steps between its elements.
                Arguments.of(new Contraction.MatMul(), new String[] {"9 8 step", "8 7"}),
                Arguments.of(new Contraction.MatMul(), new String[] {"9 8", "8 7 step"}),
                Arguments.of(new Contraction.Linear(Epilogue.RELU, false), new String[] {"9 8 step", "7 8", "7 step"}),
                Arguments.of(new Contraction.Linear(Epilogue.NONE, false), new String[] {"9 8", "7 8 step", "7 step"}),
                Arguments.of(new Contraction.LinearWeightGradient(), new String[] {"9 8 step", "9 7 step"}),
                // Winograd's algorithm, oneDNN's, and convolutions whose padding exceeds the kernel.
                Arguments.of(new Convolution.Conv(near, Epilogue.RELU),
                        new String[] {"4 32 24 24", "32 32 3 3", "32 step"}),
                Arguments.of(new Convolution.ConvInputGradient(near, Shape.of(4, 32, 24, 24)),
                        new String[] {"4 32 24 24", "32 32 3 3"}),
                Arguments.of(new Convolution.ConvWeightGradient(near, Shape.of(32, 32, 3, 3), true),
                        new String[] {"4 32 24 24", "4 32 24 24"}),
                Arguments.of(new Convolution.Conv(stepped, Epilogue.NONE),
                        new String[] {"2 4 9 9 step", "5 4 3 3 step", "5 step"}),
                Arguments.of(new Convolution.ConvInputGradient(stepped, Shape.of(2, 4, 9, 9)),
                        new String[] {"2 5 5 5 step", "5 4 3 3 step"}),
                Arguments.of(new Convolution.ConvWeightGradient(stepped, Shape.of(5, 4, 3, 3), true),
                        new String[] {"2 4 9 9 step", "2 5 5 5 step"}),
                Arguments.of(new Convolution.ConvWeightGradient(near, Shape.of(32, 3, 3, 3), true),
                        new String[] {"2 3 9 9 step", "2 32 9 9 step"}),
                Arguments.of(new Convolution.Conv(far, Epilogue.NONE),
                        new String[] {"2 4 3 3 step", "5 4 3 3 step", "5 step"}),
                Arguments.of(new Convolution.ConvInputGradient(far, Shape.of(2, 4, 3, 3)),
                        new String[] {"2 5 11 11 step", "5 4 3 3 step"}),
                Arguments.of(new Convolution.ConvWeightGradient(far, Shape.of(5, 4, 3, 3), true),
                        new String[] {"2 4 3 3 step", "2 5 11 11 step"}));
    }

    private static Tensor operand(Generator random, String text) {
        boolean stepped = text.endsWith("step");
        String[] sizes = text.replace(" step", "").split(" ");
        long[] dims = new long[sizes.length];
        for (int i = 0; i < dims.length; i++) {
            dims[i] = Long.parseLong(sizes[i]);
        }
        Shape shape = Shape.of(dims);
        if (!stepped) {
            return random.uniform(dims);
        }
        Tensor memory = random.uniform(2 * shape.count());
        long[] strides = LongStream.of(shape.contiguousStrides()).map(stride -> 2 * stride).toArray();
        return memory.storage().view(memory.spec().with(shape), strides, 0);
    }

    @ParameterizedTest
    @MethodSource("operations")
    void areFreed(Op op, String[] operands) {
        Generator random = Generator.seeded(4);
        try (Scope scope = Scope.open()) {
            Tensor[] inputs = Stream.of(operands).map(text -> operand(random, text)).toArray(Tensor[]::new);
            int before = scope.size();
            Tensor[] results = Tensor.apply(op, inputs);
            assertThat(scope.size() - before).isEqualTo(results.length);
        }
    }
}
