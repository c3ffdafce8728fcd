package dev.starling.samples.train;

import dev.starling.tensor.Device;
import dev.starling.tensor.spi.Probe;

/**
 * The device on which a process trains.
 *
 * @param device the device
 * @param warning why the choice is not optimal, or {@code null}
 */
record Placement(Device device, String warning) {
    private static final String VISIBLE = "CUDA_VISIBLE_DEVICES";

    /**
     * Returns the requested device. For GPUs without a number it is the process's own GPU, as long as there are enough.
     *
     * @param requested as on the command line
     * @param localRank number of this process among those of its host
     * @param localWorkers how many of them train
     */
    static Placement of(String requested, int localRank, int localWorkers) {
        int devices = localWorkers > 1 && requested.equals("cuda")
                && Device.probes().get(requested) instanceof Probe.Ready ready ? ready.devices() : 1;
        // A launcher may have made a different GPU visible to each process.
        return of(requested, localRank, localWorkers, devices, devices == 1 && System.getenv(VISIBLE) != null);
    }

    /** As above, on a host with a given number of GPUs, which may be reserved for this process. */
    static Placement of(String requested, int localRank, int localWorkers, int devices, boolean own) {
        if (!requested.matches("[a-z][a-z-]*(:\\d{1,3})?")) {
            throw new IllegalArgumentException("--device must be cpu, cuda or cuda:N, got " + requested);
        }
        String[] parts = requested.split(":", 2);
        if (parts.length == 2 || !requested.equals("cuda")) {
            Device device = Device.of(parts[0], parts.length == 2 ? Integer.parseInt(parts[1]) : 0);
            return new Placement(device, localWorkers > 1 && parts[0].equals("cuda") && !own ? localWorkers
                    + " workers with these options share " + device + ": with --device cuda each uses a GPU of its own"
                    : null);
        }
        return new Placement(Device.of(requested, localRank % devices), localWorkers <= devices || own ? null
                : localWorkers + " workers share " + devices + (devices == 1 ? " GPU" : " GPUs") + " of this host, and "
                + "gradients are copied through the host's memory: start " + devices + " instead");
    }
}
