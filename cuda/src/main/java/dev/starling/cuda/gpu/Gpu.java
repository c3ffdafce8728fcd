package dev.starling.cuda.gpu;

/**
 * A GPU as the backend needs it: memory, copies, streams, events, compiled kernels and their launches. Every call may
 * come from any thread. What is queued on one stream runs in the order of the calls.
 *
 * <p>All methods throw {@link GpuException} if the machine reports an error, also one of an earlier launch.
 */
public interface Gpu {
    /** An order of work. */
    interface Stream {
        /** Returns the driver's handle, for the vendor's libraries, or 0 where there is none. */
        default long address() {
            return 0;
        }
    }

    /** A point in a stream. */
    interface Event { }

    /** A loaded program. */
    interface Image {
        /** Returns a kernel by its name. */
        Function function(String name);
    }

    /** A kernel of an {@link Image}. */
    interface Function { }

    /** Work that was taken down from a stream, and is done again at one command. */
    interface Graph extends AutoCloseable {
        /**
         * Gives a kernel other arguments for the runs to come.
         *
         * @param kernel its number among the {@link Gpu#launch}es that were taken down
         * @param arguments as of {@code launch}
         * @param bytes as many as they were
         */
        void arguments(int kernel, long arguments, int bytes);

        /** Queues all of it. */
        void launch(Stream stream);

        /** Gives it back when its runs are done. */
        @Override
        void close();
    }

    /**
     * How many threads a kernel is launched with.
     *
     * @param x blocks, at least 1
     * @param y blocks, 1 to 65535
     * @param z blocks, 1 to 65535
     * @param threads of a block, at most 1024
     */
    record Grid(int x, int y, int z, int threads) { }

    /**
     * Makes this the device of the vendor's libraries for the calls that follow at once. It is that of the system's
     * thread, and a virtual thread goes on with another one after it has waited: nothing that may wait, a lock neither,
     * may come between this and such a call.
     */
    default void enter() { }

    /** Returns the product's name. */
    String name();

    /** Returns a name that no other device of the machine has. */
    default String identity() {
        return name() + "@" + System.identityHashCode(this);
    }

    /** Returns what its kernels are compiled for, for example {@code sm_90}. */
    String architecture();

    /** Returns how many multiprocessors there are. */
    int processors();

    /** Returns what compiles kernels for it. */
    Compiler compiler();

    /** Returns memory of the device, aligned to 256 bytes at least, or 0 if there is not enough. */
    long allocate(long bytes);

    /** Gives back memory of the device; waits until nothing uses it any more. */
    void free(long address);

    /** Lets {@code trim} be run when a request finds no memory left; the request is then repeated. */
    default void onShortage(Runnable trim) { }

    /** Gives back what is kept of the memory for later: for who has asked a vendor's library in vain. */
    default void trim() { }

    /** Returns how many bytes of the device's memory nobody uses. */
    long freeBytes();

    /** Returns host memory that the device can copy from and to by itself, and that kernels see at the same address. */
    long allocatePinned(long bytes);

    /** Gives back host memory. */
    void freePinned(long address);

    /**
     * Lets the device copy from and to memory of the host by itself, as with {@link #allocatePinned}; nothing is to be
     * done where it can anyway. Somebody else's memory, which stays until {@link #unpin}.
     */
    default void pin(long address, long bytes) { }

    /** Ends it; no copy is under way. */
    default void unpin(long address) { }

    /** Makes a stream. */
    Stream stream();

    /** Makes an event, which counts as passed until it is recorded. */
    Event event();

    /** Gives an event back, which may still have to pass. */
    void closeEvent(Event event);

    /** Lets an event pass when all that was queued on the stream so far is done. */
    void record(Event event, Stream stream);

    /** Returns whether an event has passed. */
    boolean isDone(Event event);

    /** Waits for an event. */
    void await(Event event);

    /** Lets what is queued on the stream from now on wait for an event. */
    void await(Event event, Stream stream);

    /** Waits for all that was queued on a stream. */
    void synchronize(Stream stream);

    /** Queues a copy to the device; pinned memory may change again after the copy, other memory after the call. */
    void upload(long host, long device, long bytes, Stream stream);

    /** Queues a copy to the host; with memory that is not pinned it is done after the call. */
    void download(long device, long host, long bytes, Stream stream);

    /** Queues a copy within the device's memory. */
    void copy(long from, long to, long bytes, Stream stream);

    /** Queues the setting of every byte to {@code value}. */
    void fill(long address, byte value, long bytes, Stream stream);

    /** Loads what the {@link #compiler} made. */
    Image load(byte[] program);

    /**
     * Queues a kernel.
     *
     * @param arguments address of the arguments in host memory, one after the other, each aligned to its size; may be
     *     used again after the call
     * @param bytes size of the arguments
     */
    void launch(Function function, Grid grid, Stream stream, long arguments, int bytes);

    /**
     * Takes down what is queued on the stream from now on, without doing it. Nothing may wait for the stream meanwhile,
     * the stream may wait for nothing that is not taken down, and no other thread may use it.
     */
    void beginCapture(Stream stream);

    /**
     * Ends it in any case; the stream takes work again.
     *
     * @throws GpuException if something that cannot be taken down was asked for
     */
    Graph endCapture(Stream stream);
}
