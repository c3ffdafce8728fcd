package dev.starling.transport.contract;

import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** Runs a test in several settings at the same time: for tests that mostly wait, and share nothing. */
final class Overlapping {
    private static final int THREADS = 4;
    private static final long TIMEOUT_S = 60;

    private Overlapping() { }

    /** Starts a test in all settings that are available, and returns tests that report the results. */
    static Stream<DynamicTest> in(Stream<Setting> settings, Consumer<Setting> test) {
        ExecutorService pool = Executors.newFixedThreadPool(THREADS, Thread.ofPlatform().daemon()
                .name("overlapping-", 0).factory());
        try {
            List<DynamicTest> reports = settings.map(setting -> {
                Future<?> end = pool.submit(() -> {
                    Available.assume(setting);
                    test.accept(setting);
                });
                return DynamicTest.dynamicTest(setting.toString(), () -> report(end));
            }).toList();
            return reports.stream();
        } finally {
            pool.shutdown();
        }
    }

    /** Throws what the test has thrown, which also skips what it skips. */
    private static void report(Future<?> end) throws Throwable {
        try {
            end.get(TIMEOUT_S, TimeUnit.SECONDS);
        } catch (ExecutionException e) {
            throw e.getCause();
        }
    }
}
