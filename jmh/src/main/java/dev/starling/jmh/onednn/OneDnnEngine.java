package dev.starling.jmh.onednn;

import dev.starling.jmh.Case;
import dev.starling.jmh.Engine;
import dev.starling.jmh.Inputs;
import dev.starling.jmh.Workload.Format;
import dev.starling.jmh.Workload;
import java.util.List;
import org.bytedeco.dnnl.IntMemoryMap;
import org.bytedeco.dnnl.engine;
import org.bytedeco.dnnl.global.dnnl;
import org.bytedeco.dnnl.matmul;
import org.bytedeco.dnnl.memory;
import org.bytedeco.dnnl.primitive_attr;
import org.bytedeco.dnnl.stream;
import org.bytedeco.javacpp.FloatPointer;
import org.bytedeco.javacpp.Pointer;
import org.bytedeco.javacpp.ShortPointer;

/**
 * Raw oneDNN with everything prepared: the limit of what matrix products can reach. {@code OMP_NUM_THREADS} sets its
 * number of threads.
 */
public final class OneDnnEngine implements Engine {
    private static final String PLAIN = "plain";

    /** Makes the engine. */
    public OneDnnEngine() {
    }

    @Override
    public List<String> variants(Workload workload) {
        return workload instanceof Workload.Matmul ? List.of(PLAIN) : List.of();
    }

    @Override
    public Case prepare(Workload workload, String variant) {
        if (workload instanceof Workload.Matmul(int size, Format format)) {
            return new Product(size, format);
        }
        throw new IllegalArgumentException("raw oneDNN runs matrix products only, not " + workload);
    }

    private static final class Product implements Case {
        private final engine cpu = new engine(engine.kind.cpu, 0);
        private final stream queue = new stream(cpu);
        private final Pointer[] elements = new Pointer[3];
        private final IntMemoryMap arguments = new IntMemoryMap();
        private final matmul product;

        Product(int n, Format format) {
            long[] strides = {n, 1};
            memory.desc matrix = new memory.desc(new long[] {n, n},
                format == Format.F32 ? memory.data_type.f32 : memory.data_type.bf16, strides, false);
            matmul.primitive_desc description =
                new matmul.primitive_desc(cpu, matrix, matrix, matrix, new primitive_attr(), false);
            int[] roles = {dnnl.DNNL_ARG_SRC, dnnl.DNNL_ARG_WEIGHTS, dnnl.DNNL_ARG_DST};
            for (int i = 0; i < roles.length; i++) {
                elements[i] = elements(format, Inputs.normal(i, n, n));
                arguments.put(roles[i], new memory(matrix, cpu, elements[i]));
            }
            product = new matmul(description);
        }

        private static Pointer elements(Format format, float... values) {
            if (format == Format.F32) {
                return new FloatPointer(values);
            }
            short[] upper = new short[values.length];
            for (int i = 0; i < upper.length; i++) {
                upper[i] = (short) (Float.floatToRawIntBits(values[i]) >>> 16);
            }
            return new ShortPointer(upper);
        }

        @Override
        public void run() {
            product.execute(queue, arguments);
            queue._wait();
        }

        @Override
        public void close() {
            product.close();
            arguments.close();
            for (Pointer matrix : elements) {
                matrix.close();
            }
            queue.close();
            cpu.close();
        }
    }
}
