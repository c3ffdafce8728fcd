package dev.starling.jmh.cluster;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import org.bytedeco.javacpp.Loader;
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
    GlooMember(int threads, Seat seat) throws IOException {
        load(seat.directory().resolve("loading"));
        torch.set_num_threads(1);
        ProcessGroupGloo.Options options = ProcessGroupGloo.Options.create();
        options.devices(new GlooDeviceVector(ProcessGroupGloo.createDeviceForHostname(seat.host())));
        options.threads(threads);
        group = new ProcessGroupGloo(new FileStore(seat.directory().resolve("store").toString(), seat.world()),
            seat.rank(), seat.world(), options);
        all = torch.zeros(new long[] {MAX_BYTES / Float.BYTES});
        all.retainReference();
    }

    /** Loads PyTorch in one process at a time: JavaCPP may load a file that another process still extracts. */
    private static void load(Path lock) throws IOException {
        try (FileChannel file = FileChannel.open(lock, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            file.lock();
            Loader.load(torch.class);
        }
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
