package dev.starling.cuda.gpu;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.TreeMap;

/**
 * A GPU that puts off everything queued until somebody waits for it, has little memory and runs no kernels but notes
 * their launches: what goes wrong with order and bounds goes wrong at once.
 */
public final class QueuedGpu implements Gpu {
    private static final MemorySegment ALL = MemorySegment.NULL.reinterpret(Long.MAX_VALUE);

    /** What kernels were launched with: name, grid, and the bytes of the arguments. */
    public record Launched(String kernel, Grid grid, byte[] arguments) { }

    private record Named(String name) implements Function { }

    private static final class Order implements Stream {
        private final Queue<Runnable> waiting = new ArrayDeque<>();
        private long queued;
        private long done;
    }

    private static final class Mark implements Event {
        private Order order;
        private long number;
    }

    private final Map<Long, Arena> lent = new TreeMap<>();
    private final Map<Long, Long> sizes = new TreeMap<>();
    private final List<Launched> launches = new ArrayList<>();
    private final long budget;
    private long used;
    private String failure;

    /** Makes a device with {@code budget} bytes of memory. */
    public QueuedGpu(long budget) {
        this.budget = budget;
    }

    /** Returns what was launched so far. */
    public List<Launched> launches() {
        return launches;
    }

    /** Lets the next launch fail. */
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
        return take(bytes);
    }

    private long take(long bytes) {
        Arena arena = Arena.ofShared();
        long address = arena.allocate(bytes, 256).address();
        lent.put(address, arena);
        sizes.put(address, bytes);
        return address;
    }

    @Override
    public void free(long address) {
        used -= sizes.get(address);
        freePinned(address);
    }

    @Override
    public long freeBytes() {
        return budget - used;
    }

    @Override
    public long allocatePinned(long bytes) {
        return take(bytes);
    }

    @Override
    public void freePinned(long address) {
        sizes.remove(address);
        lent.remove(address).close();
    }

    @Override
    public Stream stream() {
        return new Order();
    }

    @Override
    public Event event() {
        return new Mark();
    }

    @Override
    public void record(Event event, Stream stream) {
        ((Mark) event).order = (Order) stream;
        ((Mark) event).number = ((Order) stream).queued;
    }

    @Override
    public void await(Event event) {
        Mark mark = (Mark) event;
        while (mark.order != null && mark.order.done < mark.number) {
            advance(mark.order);
        }
    }

    @Override
    public void await(Event event, Stream stream) {
        queue(stream, () -> await(event));
    }

    @Override
    public void synchronize(Stream stream) {
        while (!((Order) stream).waiting.isEmpty()) {
            advance((Order) stream);
        }
    }

    private static void advance(Order order) {
        order.waiting.remove().run();
        order.done++;
    }

    private static void queue(Stream stream, Runnable work) {
        ((Order) stream).waiting.add(work);
        ((Order) stream).queued++;
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
        launches.add(new Launched(((Named) function).name, grid,
                ALL.asSlice(arguments, bytes).toArray(ValueLayout.JAVA_BYTE)));
    }
}
