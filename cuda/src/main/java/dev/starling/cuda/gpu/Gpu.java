package dev.starling.cuda.gpu;

/**
 * A GPU as the backend needs it: memory, copies, streams, events, compiled kernels and their launches. Any thread may
 * call any method. Work queued on one stream runs in the order of the calls.
 *
 * <p>Every method throws {@link GpuException} if the driver reports an error. The driver may report the error of an
 * earlier launch.
 */
public interface Gpu {
    /** A queue of work that runs in order. */
    interface Stream {
        /** Returns the driver's handle, for the vendor's libraries, or 0 if the stream has none. */
        default long address() {
            return 0;
        }
    }

    /** A point in a stream. */
    interface Event { }

    /** A loaded program. */
    interface Image {
        /** Returns a kernel by name. */
        Function function(String name);
    }

    /** A kernel of an {@link Image}. */
    interface Function { }

    /** Work captured from a stream, which one call launches again. */
    interface Graph extends AutoCloseable {
        /**
         * Changes a kernel's arguments for later launches of the graph.
         *
         * @param kernel the kernel's index among the captured {@link Gpu#launch} calls
         * @param arguments address of the arguments, as for {@code launch}
         * @param bytes size of the arguments, the same as when the kernel was captured
         */
        void arguments(int kernel, long arguments, int bytes);

        /** Queues the whole graph. */
        void launch(Stream stream);

        /** Destroys the graph after its launches have finished. */
        @Override
        void close();
    }

    /**
     * The size of a launch.
     *
     * @param x blocks, at least 1
     * @param y blocks, 1 to 65535
     * @param z blocks, 1 to 65535
     * @param threads of a block, at most 1024
     */
    record Grid(int x, int y, int z, int threads) { }

    /**
     * Makes this the current device of the calling thread for the vendor's libraries. The setting belongs to the
     * operating system's thread, and a virtual thread may resume on another carrier after it has blocked. So nothing
     * that may block, a lock included, may come between this call and the library's.
     */
    default void enter() { }

    /** Returns the product name. */
    String name();

    /** Returns a name that is unique among the machine's devices. */
    default String identity() {
        return name() + "@" + System.identityHashCode(this);
    }

    /** Returns the architecture that kernels are compiled for, for example {@code sm_90}. */
    String architecture();

    /** Returns the number of multiprocessors. */
    int processors();

    /** Returns the compiler of this device's kernels. */
    Compiler compiler();

    /** Returns the address of device memory, aligned to at least 256 bytes, or 0 if there is not enough. */
    long allocate(long bytes);

    /** Frees device memory, after waiting until no queued work uses it. */
    void free(long address);

    /** Registers an action that frees cached memory. It runs when a request finds none left, before a retry. */
    default void onShortage(Runnable trim) { }

    /** Frees cached memory. Callers use it before they retry a library call that ran out of memory. */
    default void trim() { }

    /** Returns how many bytes of the device's memory are free. */
    long freeBytes();

    /** Returns page-locked host memory, which the device copies directly and kernels see at the same address. */
    long allocatePinned(long bytes);

    /** Frees memory of {@link #allocatePinned}. */
    void freePinned(long address);

    /**
     * Page-locks host memory of the caller, so that the device copies it directly, as with {@link #allocatePinned}. The
     * memory must stay allocated until {@link #unpin}. A no-op on devices that need no page-locking.
     */
    default void pin(long address, long bytes) { }

    /** Reverts {@link #pin}. No copy from or to the memory may be under way. */
    default void unpin(long address) { }

    /** Creates a stream. */
    Stream stream();

    /** Creates an event, which counts as completed until it is recorded. */
    Event event();

    /** Destroys an event, which may still be pending. */
    void closeEvent(Event event);

    /** Records an event, which completes when all work queued on the stream so far is done. */
    void record(Event event, Stream stream);

    /** Returns whether an event has completed. */
    boolean isDone(Event event);

    /** Blocks until an event completes. */
    void await(Event event);

    /** Makes work that is queued on the stream from now on wait for an event. */
    void await(Event event, Stream stream);

    /** Blocks until all work queued on a stream is done. */
    void synchronize(Stream stream);

    /** Queues a copy to the device. The host memory, pinned or not, may be changed once the copy is done. */
    void upload(long host, long device, long bytes, Stream stream);

    /**
     * Queues a copy to the host. Its bytes may be read once the copy is done, even if the host memory is not pinned:
     * CUDA does not promise that such a copy is done when the call returns.
     */
    void download(long device, long host, long bytes, Stream stream);

    /** Queues a copy within the device's memory. */
    void copy(long from, long to, long bytes, Stream stream);

    /** Queues a fill that sets every byte to {@code value}. */
    void fill(long address, byte value, long bytes, Stream stream);

    /** Loads a program that {@link #compiler} returned. */
    Image load(byte[] program);

    /**
     * Queues a kernel.
     *
     * @param arguments address in host memory of the arguments, one after the other, each aligned to its size; the
     *     memory may be reused after the call
     * @param bytes size of the arguments
     */
    void launch(Function function, Grid grid, Stream stream, long arguments, int bytes);

    /**
     * Starts stream capture: work queued on the stream from now on is recorded and does not run. During a capture no
     * thread may wait for the stream, the stream may wait only for captured work, and no other thread may use it.
     */
    void beginCapture(Stream stream);

    /**
     * Ends stream capture, also when it fails; the stream runs work again.
     *
     * @throws GpuException if an operation that cannot be captured was queued
     */
    Graph endCapture(Stream stream);
}
