package dev.starling.cuda.kernels;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.compile.KernelCompiler;
import dev.starling.cuda.gpu.QueuedGpu;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Shape;
import dev.starling.tensor.Tensor;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ProductKernelsTest {
    private static final long N = 70_000;

    @TempDir
    private Path folder;

    private static Tensor zeros(long... shape) {
        return Device.with(Device.reference(), () -> Tensor.zeros(shape));
    }

    /** Both operands are broadcast, each along another dimension, so that the dimensions do not merge. */
    @Test
    void declinesMoreProductsThanItCanNumber() {
        QueuedGpu gpu = new QueuedGpu(1 << 20);
        ProductKernels kernels = new ProductKernels(new Launcher(gpu, new KernelCompiler(gpu.compiler(), "sm_90",
                folder)));
        try (Scope scope = Scope.open()) {
            Tensor y = zeros(1, 1, 1, 1).expand(Shape.of(N, N, 1, 1));
            assertThat(kernels.multiply(Multiplication.of(zeros(N, 1, 1, 1), zeros(N, 1, 1), y)))
                    .isSameAs(Answer.TOO_LARGE);
        }
        assertThat(gpu.launches()).isEmpty();
    }
}
