package dev.starling.cuda;

import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** Tests that share nothing, by all processors at once. */
final class SideBySide {
    private SideBySide() { }

    /** Runs all tests and returns others of the same names, which tell how they ended. */
    static Stream<DynamicTest> of(Stream<DynamicTest> tests) {
        try (ExecutorService pool = Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors())) {
            List<DynamicTest> told = tests.map(test -> {
                Future<?> end = pool.submit(() -> {
                    run(test);
                    return null;
                });
                return DynamicTest.dynamicTest(test.getDisplayName(), () -> tell(end));
            }).toList();
            return told.stream();
        }
    }

    private static void run(DynamicTest test) throws Exception {
        try {
            test.getExecutable().execute();
        } catch (Exception | Error e) {
            throw e;
        } catch (Throwable e) {
            throw new AssertionError(e);
        }
    }

    private static void tell(Future<?> end) throws Throwable {
        try {
            end.get();
        } catch (ExecutionException e) {
            throw e.getCause();
        }
    }
}
