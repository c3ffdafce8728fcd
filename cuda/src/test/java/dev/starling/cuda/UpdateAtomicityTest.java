package dev.starling.cuda;

import static org.assertj.core.api.Assertions.assertThat;

import dev.starling.cuda.emulated.Emulation;
import dev.starling.cuda.gpu.Gpu;
import dev.starling.cuda.gpu.GpuException;
import dev.starling.tensor.DType;
import dev.starling.tensor.Device;
import dev.starling.tensor.Scope;
import dev.starling.tensor.Tensor;
import dev.starling.tensor.TensorException;
import dev.starling.tensor.op.Rule;
import dev.starling.tensor.op.Update;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIf;

/**
 * Updates by several kernels, one after the other of which cannot be loaded: a step is done completely or not at all.
 */
@EnabledIf(value = "dev.starling.cuda.emulated.Emulation#isAvailable", disabledReason = "needs g++ on x86-64")
class UpdateAtomicityTest {
    private static final Device DEVICE = Device.of("cuda-emulated", 0);
    private static final Update[] OPS = {new Rule.Sgd(0, 0, 0.01, false).step(0.1, 1),
        new Rule.Adam(0.9, 0.999, 1e-8, 0.1, true).step(0.01, 3), new Rule.Sgd(0.9, 0.1, 0.01, true).step(0.1, 1),
        new Update.Blend(0.9, 0.1)};

    /** Returns a GPU with memory for a number of kernels. */
    private static Gpu withRoom(int kernels) {
        Gpu gpu = Emulation.gpu();
        int[] left = {kernels};
        return (Gpu) Proxy.newProxyInstance(Gpu.class.getClassLoader(), new Class<?>[] {Gpu.class},
                (proxy, method, arguments) -> {
                    if (method.getName().equals("load") && left[0]-- == 0) {
                        throw GpuException.exhausted("cuModuleLoadData: error 2, out of memory");
                    }
                    try {
                        return method.invoke(gpu, arguments);
                    } catch (InvocationTargetException e) {
                        throw e.getCause();
                    }
                });
    }

    private static Tensor numbers(int i, long... shape) {
        return Tensor.ones(shape).mul(i + 1).to(DEVICE);
    }

    /** The last parameter has gaps and a gradient of another type, so that copies are updated. */
    private static Tensor[][] operands() {
        return new Tensor[][] {{numbers(0, 5), numbers(1, 5)}, {numbers(2, 7), numbers(3, 7), numbers(4, 7),
            numbers(5, 7)}, {numbers(6, 3), numbers(7, 3), numbers(8, 3)},
            {numbers(9, 4, 6).narrow(1, 1, 3), numbers(10, 4, 3).to(DType.F64)}};
    }

    private static float[][] read(Tensor[][] operands) {
        return Arrays.stream(operands).flatMap(Arrays::stream).map(Tensor::toFloats).toArray(float[][]::new);
    }

    @Test
    void updatesCompletelyOrNotAtAll() {
        boolean done = false;
        int failures = 0;
        while (!done) {
            try (Scope scope = Scope.open()) {
                Tensor[][] operands = operands();
                float[][] before = read(operands);
                CudaBackend backend = new CudaBackend(DEVICE, withRoom(failures), Libraries.NONE);
                try {
                    backend.updateAll(OPS, operands, null);
                    done = true;
                } catch (TensorException e) {
                    failures++;
                    assertThat(e.problem()).isEqualTo(TensorException.Problem.MEMORY);
                    assertThat(e).hasMessageContaining("in use and").hasMessageContaining("cached on emulated GPU")
                            .hasMessageContaining("use smaller batches");
                }
                assertThat(Arrays.deepEquals(read(operands), before)).isEqualTo(!done);
            }
        }
        assertThat(failures).isGreaterThan(OPS.length);
    }
}
