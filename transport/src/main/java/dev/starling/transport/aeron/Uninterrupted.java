package dev.starling.transport.aeron;

import dev.starling.errors.ThreadException;
import io.aeron.Aeron;
import io.aeron.LogBuffers;
import java.lang.System.Logger.Level;
import java.lang.reflect.Proxy;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.agrona.ErrorHandler;
import org.agrona.LangUtil;
import org.agrona.concurrent.AgentInvoker;
import org.agrona.concurrent.AgentTerminationException;

/**
 * Work for callers that may be interrupted meanwhile. Java closes a file that an interrupted thread opens, writes or
 * maps, which would cost Aeron the link that the file is for.
 */
final class Uninterrupted {
    private Uninterrupted() { }

    /** Calls an action in a thread of its own and waits for it, whether or not the caller is interrupted. */
    static <T> T call(Callable<T> action) {
        FutureTask<T> task = new FutureTask<>(action);
        ThreadException.start(Thread.ofPlatform().daemon().name("starling-aeron-files").unstarted(task));
        boolean interrupted = false;
        try {
            while (true) {
                try {
                    return task.get();
                } catch (InterruptedException e) {
                    interrupted = true;
                } catch (ExecutionException e) {
                    LangUtil.rethrowUnchecked(e.getCause());
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    /** Does an agent's work as {@link AgentInvoker#invoke}, which ends the agent if its caller is interrupted. */
    static int invoke(AgentInvoker invoker, ErrorHandler errors) {
        if (!invoker.isRunning()) {
            return 0;
        }
        try {
            return invoker.agent().doWork();
        } catch (AgentTerminationException e) {
            errors.onError(e);
            invoker.close();
        } catch (Exception e) {
            errors.onError(e);
        }
        return 0;
    }

    /** Does the work of a client, which no other thread does. */
    static void invoke(Aeron client) {
        invoke(client.conductorAgentInvoker(), client.context().errorHandler());
    }

    /** Lets a client that is yet to connect map terms here, or leaves that to Aeron if it is a version without. */
    static Aeron.Context mapsTerms(Aeron.Context context) {
        try {
            Class<?> factory = Class.forName("io.aeron.LogBuffersFactory");
            var setter = Aeron.Context.class.getDeclaredMethod("logBuffersFactory", factory);
            setter.setAccessible(true); // For Aeron's own tests.
            setter.invoke(context, Proxy.newProxyInstance(factory.getClassLoader(), new Class<?>[] {factory},
                    (self, method, arguments) -> switch (method.getName()) {
                        case "map" -> call(() -> new LogBuffers((String) arguments[0]));
                        case "equals" -> self == arguments[0];
                        case "hashCode" -> System.identityHashCode(self);
                        default -> "maps terms, also for interrupted threads";
                    }));
        } catch (ReflectiveOperationException | RuntimeException e) {
            AeronWire.LOG.log(Level.DEBUG, "Aeron maps terms itself: {0}", e.toString());
        }
        return context;
    }
}
