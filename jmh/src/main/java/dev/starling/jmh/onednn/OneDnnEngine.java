package dev.starling.jmh.onednn;

import dev.starling.jmh.Case;
import dev.starling.jmh.Engine;
import dev.starling.jmh.Inputs;
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
        if (workload instanceof Workload.Matmul(int size)) {
            return new Product(size);
        }
        throw new IllegalArgumentException("raw oneDNN runs matrix products only, not " + workload);
    }

    private static final class Product implements Case {
        private final engine cpu = new engine(engine.kind.cpu, 0);
        private final stream queue = new stream(cpu);
        private final FloatPointer[] elements = new FloatPointer[3];
        private final IntMemoryMap arguments = new IntMemoryMap();
        private final matmul product;

        Product(int n) {
            long[] strides = {n, 1};
            memory.desc matrix = new memory.desc(new long[] {n, n}, memory.data_type.f32, strides, false);
            matmul.primitive_desc description =
                new matmul.primitive_desc(cpu, matrix, matrix, matrix, new primitive_attr(), false);
            int[] roles = {dnnl.DNNL_ARG_SRC, dnnl.DNNL_ARG_WEIGHTS, dnnl.DNNL_ARG_DST};
            for (int i = 0; i < roles.length; i++) {
                elements[i] = new FloatPointer(Inputs.normal(i, n, n));
                arguments.put(roles[i], new memory(matrix, cpu, elements[i]));
            }
            product = new matmul(description);
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
            for (FloatPointer matrix : elements) {
                matrix.close();
            }
            queue.close();
            cpu.close();
        }
    }
}
