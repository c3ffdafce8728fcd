package dev.starling.cuda.bench;

import dev.starling.tensor.Device;

/** All that is measured, for those who want it run and not timed. */
public final class Benchmarks {
    /** The first step of a captured one runs as ever, then it is captured, planned, and taken down. */
    private static final int STEPS = 4;

    private Benchmarks() { }

    /** Runs every case until it does nothing new; what fails is passed over. */
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
