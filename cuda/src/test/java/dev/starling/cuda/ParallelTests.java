package dev.starling.cuda;

import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;

/** Runs independent tests on all processors. */
final class ParallelTests {
    private ParallelTests() { }

    /** Runs all tests and returns tests of the same names that report the results. */
    static Stream<DynamicTest> of(Stream<DynamicTest> tests) {
        try (ExecutorService pool = Executors.newFixedThreadPool(Runtime.getRuntime().availableProcessors())) {
            List<DynamicTest> results = tests.map(test -> {
                Future<?> end = pool.submit(() -> {
                    run(test);
                    return null;
                });
                return DynamicTest.dynamicTest(test.getDisplayName(), () -> report(end));
            }).toList();
            return results.stream();
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

    private static void report(Future<?> end) throws Throwable {
        try {
            end.get();
        } catch (ExecutionException e) {
            throw e.getCause();
        }
    }
}
