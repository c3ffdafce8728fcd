package dev.starling.tensor.spi;

/** What sums tensors over devices of one machine that each have a process, or a thread, of their own. */
public interface DeviceCollectives {
    /** Returns this device's name, which no other device of the machine has. */
    String device();

    /** Returns what tells a new group from all others, 128 bytes or so: one rank asks, and tells all. */
    byte[] identifier();

    /**
     * Begins to join a group, as all of its ranks must, each with a device of its own; {@link DeviceGroup#isDone} tells
     * when they have.
     *
     * @param identifier of the group
     * @param rank from 0 below {@code world}
     * @throws dev.starling.tensor.TensorException if the library refuses
     */
    DeviceGroup join(byte[] identifier, int rank, int world);
}
