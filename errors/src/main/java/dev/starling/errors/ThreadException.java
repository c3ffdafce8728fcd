package dev.starling.errors;

/** The operating system refused a thread, which for the JVM is an {@link OutOfMemoryError} without a remedy. */
public final class ThreadException extends StarlingException {
    private static final long serialVersionUID = 1L;

    /**
     * Makes an exception about a thread that did not start.
     *
     * @param name of the thread
     */
    public ThreadException(String name, OutOfMemoryError cause) {
        super("the thread " + name + " cannot start: " + cause.getMessage() + "; end threads or processes that are not "
            + "needed, raise the limit of threads (ulimit -u, and pids.max of the container or service), or, if memory "
            + "is short, give the process more or its threads smaller stacks (-Xss)", cause);
    }

    /**
     * Starts a thread and returns it.
     *
     * @throws ThreadException if the operating system refuses it
     */
    public static Thread start(Thread thread) {
        try {
            thread.start();
            return thread;
        } catch (OutOfMemoryError e) {
            throw new ThreadException(thread.getName(), e);
        }
    }
}
