package dev.starling.distributed;

import dev.starling.tensor.DType;
import dev.starling.tensor.TensorException;
import java.lang.foreign.MemorySegment;
import java.util.function.BooleanSupplier;

/**
 * Collective operations of the members of one epoch, and transfers between two of them. All ranks must call the same
 * collectives in the same order; otherwise all get a {@link CollectiveMismatchException} that names two differing
 * calls, unless one of them is {@link #symmetric} or {@link #exchange}: these wait until the time-out, or fail where
 * they receive what the other sends. Results have the same bits on every rank and in every run. Ranks that map each
 * other's memory compute in it directly; others send pieces around a ring or, if there is little to send, gather all
 * elements in rounds of doubled distance.
 *
 * <p>A returned {@link Work} is already started, unless the method's name begins with {@code prepare}. It fails if a
 * member is lost. Methods that wait use {@link GroupConfig#timeout}, and throw what {@link Work#await} throws. Offsets
 * are in bytes and multiples of 64; counts are in elements. Elements that do not fit into the buffer cause a
 * {@link TensorException}.
 */
public interface Collectives {
    /** Registers memory of the same size on every rank. The caller closes it. Collective; waits. */
    SymmetricBuffer symmetric(long bytes);

    /** Returns the bytes that each rank passes, by rank: at most 16 KiB, lengths may differ. Collective; waits. */
    byte[][] exchange(byte[] own);

    /** Reduces {@code count} elements of all ranks, in place; all ranks get the result. Collective. */
    Work allReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op);

    /** Prepares an all-reduce that can be started repeatedly; {@code label} names its purpose in error messages. */
    Work prepareAllReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op,
            String label);

    /**
     * Prepares an all-reduce of elements that arrive in their memory asynchronously. Once started, the all-reduce waits
     * until they are ready.
     *
     * @param ready returns whether the elements have arrived. The thread that works for the group calls it repeatedly,
     *     so it must be quick and must not block. An exception from it fails all pending collectives, on every rank
     */
    Work prepareAllReduce(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op,
            String label, BooleanSupplier ready);

    /**
     * Reduces {@code count} elements, a multiple of the world size. Rank r gets chunk r of the result, in place; the
     * contents of the other chunks are undefined afterwards. Collective.
     */
    Work reduceScatter(SymmetricBuffer buffer, long offset, long count, DType type, ReduceOp op);

    /** Gathers {@code count} elements in all, a multiple of the world size; rank r provides chunk r. Collective. */
    Work allGather(SymmetricBuffer buffer, long offset, long count, DType type);

    /** Prepares an {@link #allGather} that can be started repeatedly; {@code label} names its purpose in messages. */
    Work prepareAllGather(SymmetricBuffer buffer, long offset, long count, DType type, String label);

    /** Copies the root's elements to all ranks. Collective. */
    Work broadcast(SymmetricBuffer buffer, long offset, long count, DType type, int root);

    /** Returns work that is done when all ranks have called the barrier. Collective. */
    Work barrier();

    /**
     * Sends bytes to another rank, which must receive as many with the same tag. Transfers progress independently of
     * collectives. Transfers with the same tag are received in the order in which they are sent.
     *
     * @param bytes readable by all threads; the caller must not change them until the work is done
     */
    Work send(MemorySegment bytes, int to, int tag);

    /**
     * Receives the bytes that another rank sends with the same tag, as many as {@code into} holds; {@link #send}. At
     * most 65,536 receives from one rank may wait for what it has not sent yet; more end the group.
     */
    Work receive(MemorySegment into, int from, int tag);

    /** Prepares a {@link #send} that can be started repeatedly. */
    Work prepareSend(MemorySegment bytes, int to, int tag);

    /** Prepares a {@link #receive} that can be started repeatedly. */
    Work prepareReceive(MemorySegment into, int from, int tag);

    /** Copies the root's bytes, in any memory, to all ranks; the size is the same on each. Collective; waits. */
    void broadcast(MemorySegment bytes, int root);

    /**
     * Reduces elements of all ranks, in any memory, in place. Collective; waits.
     *
     * @throws TensorException if the size of the memory is not a multiple of that of an element; nothing is reduced
     *     then
     */
    void allReduce(MemorySegment elements, DType type, ReduceOp op);

    /**
     * Fails all pending and future collectives of this rank for the rest of the epoch, without notifying the other
     * ranks, which detect it when this process leaves. After the call no collective accesses memory any more.
     */
    void stop();
}
