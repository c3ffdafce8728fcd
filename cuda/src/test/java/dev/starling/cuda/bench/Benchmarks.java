package dev.starling.cuda.bench;

import dev.starling.tensor.Device;

/** Runs all workloads without timing them. */
public final class Benchmarks {
    /** Captured workloads run their first step eagerly; then the step is captured, planned, and made a graph. */
    private static final int STEPS = 4;

    private Benchmarks() { }

    /** Runs every case until it does nothing new, and skips those that fail. */
    public static void runOnce(Device device, boolean tiny) {
        Device.with(device, () -> {
            for (Workload workload : Workload.all(tiny)) {
                try (Case small = Cases.of(workload)) {
                    for (int i = 0; i < STEPS; i++) {
                        small.run();
                    }
                } catch (RuntimeException e) {
                    System.err.println(workload.order() + " did not run on " + device + ": " + e.getMessage());
                }
            }
            return null;
        });
    }
}
