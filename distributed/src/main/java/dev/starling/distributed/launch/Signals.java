package dev.starling.distributed.launch;

import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.Linker;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.Map;
import java.util.function.IntConsumer;

/** Sends POSIX signals to processes, and handles those that this process receives. */
final class Signals {
    static final int HUP = 1;
    static final int INT = 2;
    static final int KILL = 9;
    static final int PIPE = 13;
    static final int TERM = 15;

    /** A status above this one stands for the signal that ended a process. */
    static final int STATUS_BASE = 128;

    private static final Map<Integer, String> NAMES = Map.ofEntries(Map.entry(HUP, "SIGHUP"), Map.entry(INT, "SIGINT"),
            Map.entry(3, "SIGQUIT"), Map.entry(4, "SIGILL"), Map.entry(6, "SIGABRT"), Map.entry(7, "SIGBUS"),
            Map.entry(8, "SIGFPE"), Map.entry(KILL, "SIGKILL"), Map.entry(11, "SIGSEGV"), Map.entry(PIPE, "SIGPIPE"),
            Map.entry(14, "SIGALRM"), Map.entry(TERM, "SIGTERM"));

    private Signals() {
    }

    /**
     * Sends a signal, or 0 for a check, to a process or, if negated, to a group; returns whether the target exists.
     */
    static boolean send(long target, int signal) {
        try {
            return (int) Native.KILL.invokeExact((int) target, signal) == 0;
        } catch (Throwable e) {
            throw new IllegalStateException("cannot call kill(2)", e);
        }
    }

    /** Describes how a process with this exit status ended. */
    static String describe(int status) {
        int signal = status - STATUS_BASE;
        return NAMES.containsKey(signal) ? "was ended by " + NAMES.get(signal) + " (status " + status + ")"
                : "ended with exit status " + status;
    }

    /**
     * Handles SIGINT, SIGTERM and SIGHUP in place of the JVM, until the returned object is closed. A JVM that was
     * started to ignore signals ({@code -Xrs}) receives none.
     *
     * @param onSignal receives the signal's number, on a thread of the JVM
     */
    static AutoCloseable handle(IntConsumer onSignal) {
        Map<String, Object> previous = new HashMap<>();
        Map.of("INT", INT, "TERM", TERM, "HUP", HUP).forEach((name, number) -> {
            try {
                previous.put(name, JvmSignal.handle(name, JvmSignal.handler(() -> onSignal.accept(number))));
            } catch (IllegalArgumentException reserved) {
                previous.remove(name);
            }
        });
        return () -> previous.forEach(JvmSignal::handle);
    }

    private static final class Native {
        static final MethodHandle KILL;

        static {
            Linker linker = Linker.nativeLinker();
            KILL = linker.downcallHandle(linker.defaultLookup().findOrThrow("kill"),
                    FunctionDescriptor.of(ValueLayout.JAVA_INT, ValueLayout.JAVA_INT, ValueLayout.JAVA_INT));
        }
    }

    /**
     * {@code sun.misc.Signal} of module {@code jdk.unsupported}, by reflection: the compiler warns where source code
     * names it.
     */
    private static final class JvmSignal {
        private static final String SIGNAL = "sun.misc.Signal";

        private JvmSignal() {
        }

        static Object handler(Runnable action) {
            Class<?> type = type("sun.misc.SignalHandler");
            return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (proxy, method, arguments) ->
                    switch (method.getName()) {
                        case "handle" -> {
                            action.run();
                            yield null;
                        }
                        case "equals" -> proxy == arguments[0];
                        case "hashCode" -> System.identityHashCode(proxy);
                        default -> "handler of " + action;
                    });
        }

        /** Sets a handler and returns the previous one. */
        static Object handle(String name, Object handler) {
            try {
                Object signal = type(SIGNAL).getConstructor(String.class).newInstance(name);
                return type(SIGNAL).getMethod("handle", type(SIGNAL), type("sun.misc.SignalHandler"))
                        .invoke(null, signal, handler);
            } catch (InvocationTargetException e) {
                throw new IllegalArgumentException("cannot handle SIG" + name, e.getCause());
            } catch (ReflectiveOperationException e) {
                throw new IllegalStateException("module jdk.unsupported has an unexpected interface", e);
            }
        }

        private static Class<?> type(String name) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException e) {
                throw new IllegalStateException("this Java run time lacks module jdk.unsupported", e);
            }
        }
    }
}
