package dev.starling.transport.ucx;

import java.lang.foreign.Arena;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import org.openucx.jucx.UcxException;
import org.openucx.jucx.ucp.UcpWorker;

/**
 * Waits until data have arrived on a worker's connections, or one that was full has room. Polling with sleeps instead
 * would take processor time that other threads need for sending.
 *
 * <p>The worker is not armed before each wait, because other threads may use it meanwhile: its connections must be such
 * that the kernel signals their events at any time, as TCP's are. A signal that the worker sent to itself is consumed
 * when it has caused wake-ups without work. If that does not help, there is no waiting here until there was work again.
 */
final class Events implements AutoCloseable {
    private static final long MAX_NS = 500_000;
    private static final short READABLE = 1;
    private static final int FALSE_ALARMS = 3;
    private static final MethodHandle POLL = Linker.nativeLinker().downcallHandle(
            Linker.nativeLinker().defaultLookup().findOrThrow("ppoll"), FunctionDescriptor.of(ValueLayout.JAVA_INT,
            ValueLayout.ADDRESS, ValueLayout.JAVA_LONG, ValueLayout.ADDRESS, ValueLayout.ADDRESS));

    private final UcpWorker worker;
    private final Arena arena = Arena.ofAuto();
    /** One {@code pollfd}, then a {@code timespec}. */
    private final MemorySegment polled = arena.allocate(8, 8);
    private final MemorySegment timeout = arena.allocate(16, 8);
    private volatile int alarms;
    private volatile boolean closed;

    Events(UcpWorker worker) {
        this.worker = worker;
        polled.set(ValueLayout.JAVA_INT, 0, worker.getEventFD());
        polled.set(ValueLayout.JAVA_SHORT, 4, READABLE);
        timeout.set(ValueLayout.JAVA_LONG, 8, MAX_NS);
    }

    /** Waits for a limited time, on any thread. Returns false if it cannot wait at present. */
    boolean await() {
        if (closed || alarms > 2 * FALSE_ALARMS) {
            return false;
        }
        try {
            int ready = (int) POLL.invokeExact(polled, 1L, timeout, MemorySegment.NULL);
            alarms = ready > 0 ? alarms + 1 : 0;
            return true;
        } catch (Throwable e) {
            throw Arrivals.unchecked(e);
        }
    }

    /** Called on the worker's thread after it has made progress, with the amount of work. */
    void progressed(int work) {
        if (work > 0) {
            if (alarms != 0) {
                alarms = 0;
            }
        } else if (alarms == FALSE_ALARMS) {
            alarms++;
            try {
                worker.arm();
            } catch (UcxException e) {
                // The worker has work after all.
                alarms = 0;
            }
        }
    }

    /** Ends waiting; called before the worker is closed. */
    @Override
    public void close() {
        closed = true;
    }
}
