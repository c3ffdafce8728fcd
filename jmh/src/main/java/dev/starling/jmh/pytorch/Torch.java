package dev.starling.jmh.pytorch;

import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.nio.file.Files;
import java.nio.file.Path;
import org.bytedeco.openblas.global.openblas_nolapack;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorOptional;
import org.bytedeco.pytorch.TensorOptions;
import org.bytedeco.pytorch.global.torch;

/**
 * PyTorch in this process.
 *
 * <p>OpenBLAS chooses its kernels once, when it is loaded, and not always the best ones: on AMD's Zen 5 it uses those
 * for AVX2, half as fast as those for AVX-512, which in turn are the slower ones on Zen 4. A comparison with a slowed
 * peer is worthless, so unless the environment selects kernels ({@code OPENBLAS_CORETYPE}), this class does so before
 * it loads OpenBLAS.
 */
public final class Torch {
    private static final String CORE_TYPE = "OPENBLAS_CORETYPE";
    private static final TensorOptional NONE;

    static {
        if (System.getenv(CORE_TYPE) == null) {
            setEnvironment(CORE_TYPE, coreType());
        }
        torch.set_num_interop_threads(1);
        NONE = new TensorOptional();
        NONE.retainReference();
    }

    private Torch() {
    }

    /**
     * Sets the number of threads of PyTorch's operations. OpenMP keeps it per calling thread, so call this on the
     * thread that uses PyTorch.
     */
    public static void threads(int threads) {
        torch.set_num_threads(threads);
        openblas_nolapack.blas_set_num_threads(threads);
    }

    /** Copies row-major values into a new f32 tensor, which the innermost {@code PointerScope} owns. */
    public static Tensor tensor(float[] values, long... shape) {
        Tensor tensor = torch.empty(shape);
        if (tensor.numel() != values.length) {
            throw new IllegalArgumentException(
                "the shape holds " + tensor.numel() + " elements, the array has " + values.length);
        }
        tensor.data_ptr_float().put(values);
        return tensor;
    }

    /** Copies row-major values into a new f64 tensor, which the innermost {@code PointerScope} owns. */
    public static Tensor tensor(double[] values, long... shape) {
        Tensor tensor = torch.zeros(shape, new TensorOptions(torch.ScalarType.Double));
        if (values.length > 0) {
            tensor.data_ptr_double().put(values);
        }
        return tensor;
    }

    /** Copies class numbers into a new i64 tensor, which the innermost {@code PointerScope} owns. */
    public static Tensor labels(long... labels) {
        Tensor tensor = torch.zeros(new long[] {labels.length}, new TensorOptions(torch.ScalarType.Long));
        if (labels.length > 0) {
            tensor.data_ptr_long().put(labels);
        }
        return tensor;
    }

    /** Returns the elements of an f32 tensor of any layout, in row-major order of its sizes. */
    public static float[] floats(Tensor tensor) {
        float[] values = new float[Math.toIntExact(tensor.numel())];
        tensor.contiguous().data_ptr_float().get(values);
        return values;
    }

    /** Returns the elements of a tensor of any type and layout, in row-major order of its sizes. */
    public static double[] doubles(Tensor tensor) {
        double[] values = new double[Math.toIntExact(tensor.numel())];
        if (values.length > 0) {
            tensor.toType(torch.ScalarType.Double).contiguous().data_ptr_double().get(values);
        }
        return values;
    }

    static TensorOptional none() {
        return NONE;
    }

    private static String coreType() {
        try {
            String processor = Files.readString(Path.of("/proc/cpuinfo"));
            boolean zen4 = processor.contains("AuthenticAMD") && processor.matches("(?s).*cpu family\\s*: 25\\n.*");
            return processor.contains("avx512f") && !zen4 ? "SkylakeX" : "Zen";
        } catch (IOException notLinux) {
            return "";
        }
    }

    /** Sets a variable in the process environment, where native libraries read it; Java's own copy does not change. */
    private static void setEnvironment(String name, String value) {
        Linker linker = Linker.nativeLinker();
        var setenv = linker.downcallHandle(linker.defaultLookup().find("setenv").orElseThrow(), FunctionDescriptor.of(
            ValueLayout.JAVA_INT, ValueLayout.ADDRESS, ValueLayout.ADDRESS, ValueLayout.JAVA_INT));
        try (Arena arena = Arena.ofConfined()) {
            int status = (int) setenv.invokeExact(arena.allocateFrom(name), arena.allocateFrom(value), 1);
            if (status != 0) {
                throw new IllegalStateException("setenv " + name + " failed");
            }
        } catch (RuntimeException | Error e) {
            throw e;
        } catch (Throwable impossible) {
            throw new AssertionError(impossible);
        }
    }
}
