package dev.starling.cuda.emulated;

import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;

/** Captures the backend's log messages of level WARNING and above until it is closed. */
public final class LogCapture implements AutoCloseable {
    private static final Logger LOGGER = Logger.getLogger("dev.starling.cuda");

    private final List<String> warnings = new CopyOnWriteArrayList<>();
    private final Handler handler = new Handler() {
        private final SimpleFormatter formatter = new SimpleFormatter();

        @Override
        public void publish(LogRecord entry) {
            if (entry.getLevel().intValue() >= Level.WARNING.intValue()) {
                warnings.add(formatter.formatMessage(entry));
            }
        }

        @Override
        public void flush() { }

        @Override
        public void close() { }
    };

    /** Starts capturing. */
    public LogCapture() {
        LOGGER.addHandler(handler);
    }

    /** Returns the warnings so far. */
    public List<String> warnings() {
        return List.copyOf(warnings);
    }

    @Override
    public void close() {
        LOGGER.removeHandler(handler);
    }
}
