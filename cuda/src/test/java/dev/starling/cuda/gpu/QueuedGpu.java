package dev.starling.cuda.gpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Random;
import java.util.TreeMap;

/**
 * A GPU that delays all queued work until the host waits for it, has little memory, and records launches but runs no
 * kernels: errors of order and bounds show immediately. With a seed it does the work of its streams in random order:
 * work that is not waited for is done sometimes early, sometimes late.
 */
public final class QueuedGpu implements Gpu {
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    /** A launched kernel: name, grid, and the bytes of the arguments. */
    public record Launched(String kernel, Grid grid, byte[] arguments) { }

    private record Named(String name) implements Function { }

    /** A wait that a test can disable, to see that it is noticed. */
    public enum Wait { HOST, STREAM }

    /** Work to do after the first {@code number} pieces of another stream are done. */
    private record Work(Runnable body, Order after, long number) {
        boolean isReady() {
            return after == null || after.done >= number;
        }
    }

    private static final class Order implements Stream {
        /** The capture in progress, or {@code null}. */
        private CapturedWork capture;
        private final Queue<Work> waiting = new ArrayDeque<>();
        private long queued;
        private long done;

        boolean isReady() {
            return !waiting.isEmpty() && waiting.peek().isReady();
        }
    }

    private static final class Mark implements Event {
        private Order order;
        private long number;
    }

    private final Map<Long, MemorySegment> blocks = new TreeMap<>();
    private final List<Launched> launches = new ArrayList<>();
    private final long budget;
    private final List<Order> streams = new ArrayList<>();
    /** {@code null} if only work that is waited for is done. */
    private final Random random;
    private Wait disabled;
    private Stream disabledStream;
    private long used;
    private int events;
    private String failure;
    private String lateFailure;
    private int pinnedLeft = Integer.MAX_VALUE;

    /** Makes a device with {@code budget} bytes of memory. */
    public QueuedGpu(long budget) {
        this.budget = budget;
        random = null;
    }

    /** Makes a device that does queued work in an order drawn from {@code seed}. */
    public QueuedGpu(long budget, long seed) {
        this.budget = budget;
        random = new Random(seed);
    }

    /** Disables the waits of the host, or those of a stream, from now on. */
    public void disable(Wait wait, Stream stream) {
        disabled = wait;
        disabledStream = stream;
    }

    /** Returns the streams created so far, oldest first. */
    public List<Stream> streams() {
        return List.copyOf(streams);
    }

    /** Makes the next launched kernel fail when it runs. */
    public void failLater(String message) {
        lateFailure = message;
    }

    /** Limits how many blocks of pinned memory can be allocated from now on. */
    public void limitPinned(int count) {
        pinnedLeft = count;
    }

    /** Returns the launches so far. */
    public List<Launched> launches() {
        return launches;
    }

    /** Makes the next launch fail. */
    public void failWith(String message) {
        failure = message;
    }

    @Override
    public String name() {
        return "queued GPU";
    }

    @Override
    public String architecture() {
        return "sm_00";
    }

    @Override
    public int processors() {
        return 2;
    }

    @Override
    public Compiler compiler() {
        return new Compiler() {
            @Override
            public String version() {
                return "none";
            }

            @Override
            public byte[] compile(String name, String source, String architecture) {
                return name.getBytes(java.nio.charset.StandardCharsets.UTF_8);
            }
        };
    }

    @Override
    public long allocate(long bytes) {
        if (used + bytes > budget) {
            return 0;
        }
        used += bytes;
        return reserve(bytes);
    }

    private long reserve(long bytes) {
        // The garbage collector frees it with this device.
        MemorySegment memory = Arena.ofAuto().allocate(bytes, 256);
        blocks.put(memory.address(), memory);
        return memory.address();
    }

    @Override
    public void free(long address) {
        used -= blocks.get(address).byteSize();
        freePinned(address);
    }

    @Override
    public long freeBytes() {
        return budget - used;
    }

    @Override
    public long allocatePinned(long bytes) {
        if (pinnedLeft-- <= 0) {
            throw new GpuException("no pinned memory");
        }
        return reserve(bytes);
    }

    @Override
    public void freePinned(long address) {
        blocks.remove(address);
    }

    @Override
    public synchronized Stream stream() {
        Order order = new Order();
        streams.add(order);
        return order;
    }

    @Override
    public synchronized Event event() {
        events++;
        return new Mark();
    }

    @Override
    public synchronized void closeEvent(Event event) {
        events--;
    }

    /** Returns the number of events that have not been destroyed. */
    public synchronized int events() {
        return events;
    }

    @Override
    public synchronized void record(Event event, Stream stream) {
        ((Mark) event).order = (Order) stream;
        ((Mark) event).number = ((Order) stream).queued;
    }

    @Override
    public synchronized boolean isDone(Event event) {
        Mark mark = (Mark) event;
        if (mark.order == null || mark.order.done >= mark.number || disabled == Wait.HOST) {
            return true;
        }
        if (random != null) {
            // Polling makes time pass.
            advanceAny();
        }
        return false;
    }

    @Override
    public synchronized void await(Event event) {
        Mark mark = (Mark) event;
        if (mark.order != null && disabled != Wait.HOST) {
            reach(mark.order, mark.number);
        }
    }

    @Override
    public synchronized void await(Event event, Stream stream) {
        Mark mark = (Mark) event;
        if (((Order) stream).capture != null) {
            throw ((Order) stream).capture.invalidate("waits for work that is not captured");
        }
        if (mark.order != null && !(disabled == Wait.STREAM && stream == disabledStream)) {
            queue(stream, new Work(() -> { }, mark.order, mark.number));
        }
    }

    @Override
    public synchronized void synchronize(Stream stream) {
        reach((Order) stream, ((Order) stream).queued);
    }

    private void reach(Order order, long number) {
        if (order.capture != null) {
            throw order.capture.invalidate("waits for a stream that is being captured");
        }
        while (order.done < number) {
            if (random != null) {
                advanceAny();
            } else {
                Work next = order.waiting.peek();
                if (!next.isReady()) {
                    reach(next.after, next.number);
                }
                advance(order);
            }
        }
    }

    private void advanceAny() {
        List<Order> ready = streams.stream().filter(Order::isReady).toList();
        advance(ready.get(random.nextInt(ready.size())));
    }

    private static void advance(Order order) {
        order.done++;
        order.waiting.remove().body.run();
    }

    private void queue(Stream stream, Runnable body) {
        queue(stream, new Work(body, null, 0));
    }

    private synchronized void queue(Stream stream, Work work) {
        if (((Order) stream).capture != null) {
            ((Order) stream).capture.add(() -> queue(stream, work));
            return;
        }
        ((Order) stream).waiting.add(work);
        ((Order) stream).queued++;
        if (random != null && random.nextInt(4) == 0) {
            Order order = streams.get(random.nextInt(streams.size()));
            for (int n = random.nextInt(8); n > 0 && order.isReady(); n--) {
                advance(order);
            }
        }
    }

    @Override
    public void upload(long host, long device, long bytes, Stream stream) {
        copy(host, device, bytes, stream);
    }

    @Override
    public void download(long device, long host, long bytes, Stream stream) {
        copy(device, host, bytes, stream);
    }

    @Override
    public void copy(long from, long to, long bytes, Stream stream) {
        queue(stream, () -> MemorySegment.copy(ALL, from, ALL, to, bytes));
    }

    @Override
    public void fill(long address, byte value, long bytes, Stream stream) {
        queue(stream, () -> ALL.asSlice(address, bytes).fill(value));
    }

    @Override
    public Image load(byte[] program) {
        return Named::new;
    }

    @Override
    public void launch(Function function, Grid grid, Stream stream, long arguments, int bytes) {
        if (failure != null) {
            throw new GpuException(failure);
        }
        if (((Order) stream).capture != null) {
            ((Order) stream).capture.add(arguments, bytes, copy -> launch(function, grid, stream, copy, bytes));
            return;
        }
        launches.add(new Launched(((Named) function).name, grid,
                ALL.asSlice(arguments, bytes).toArray(ValueLayout.JAVA_BYTE)));
        if (lateFailure != null) {
            String message = lateFailure;
            lateFailure = null;
            queue(stream, () -> {
                throw new GpuException(message);
            });
        }
    }

    @Override
    public void beginCapture(Stream stream) {
        ((Order) stream).capture = new CapturedWork();
    }

    @Override
    public Graph endCapture(Stream stream) {
        CapturedWork captured = ((Order) stream).capture;
        ((Order) stream).capture = null;
        captured.end();
        return captured;
    }
}
