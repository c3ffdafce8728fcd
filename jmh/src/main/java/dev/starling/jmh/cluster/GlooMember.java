package dev.starling.jmh.cluster;

import org.bytedeco.javacpp.PointerScope;
import org.bytedeco.pytorch.FileStore;
import org.bytedeco.pytorch.GlooDeviceVector;
import org.bytedeco.pytorch.ProcessGroupGloo;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.TensorVector;
import org.bytedeco.pytorch.Work;
import org.bytedeco.pytorch.global.torch;

/** PyTorch's process group over Gloo, by TCP: PyTorch's only means between processes without GPUs. */
final class GlooMember implements Member {
    private final ProcessGroupGloo group;
    private final Tensor all;

    /** Joins; {@code threads} is the number of Gloo's threads. */
    GlooMember(int threads, Seat seat) {
        torch.set_num_threads(1);
        ProcessGroupGloo.Options options = ProcessGroupGloo.Options.create();
        options.devices(new GlooDeviceVector(ProcessGroupGloo.createDeviceForHostname(seat.host())));
        options.threads(threads);
        group = new ProcessGroupGloo(new FileStore(seat.directory().resolve("store").toString(), seat.world()),
            seat.rank(), seat.world(), options);
        all = torch.zeros(new long[] {MAX_BYTES / Float.BYTES});
        all.retainReference();
    }

    @Override
    public long time(Measure measure, int bytes, int runs) {
        try (PointerScope scope = new PointerScope()) {
            TensorVector part = new TensorVector(all.narrow(0, 0, bytes / Float.BYTES));
            wait(group.barrier());
            long start = System.nanoTime();
            for (int i = 0; i < runs; i++) {
                wait(group.allreduce(part));
            }
            return System.nanoTime() - start;
        }
    }

    private static void wait(Work work) {
        if (!work._wait()) {
            throw new IllegalStateException("a Gloo all-reduce failed");
        }
        work.close();
    }

    @Override
    public void close() {
        all.close();
        group.close();
    }
}
