package dev.starling.distributed.ps;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;

/** Captures warnings that classes of this library log. */
final class Warnings {
    private static final Logger LOG = Logger.getLogger("dev.starling.distributed");

    private Warnings() {
    }

    /** Runs an action, and returns the warnings that a class logged meanwhile. */
    static List<String> of(Class<?> source, Runnable action) {
        List<String> messages = new CopyOnWriteArrayList<>();
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord line) {
                if (line.getLevel().equals(Level.WARNING) && line.getSourceClassName().equals(source.getName())) {
                    messages.add(line.getMessage());
                }
            }

            @Override
            public void flush() {
            }

            @Override
            public void close() {
            }
        };
        LOG.addHandler(handler);
        try {
            action.run();
        } finally {
            LOG.removeHandler(handler);
        }
        return messages;
    }
}
