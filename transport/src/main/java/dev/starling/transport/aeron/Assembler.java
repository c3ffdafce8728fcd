package dev.starling.transport.aeron;

import static io.aeron.logbuffer.FrameDescriptor.BEGIN_FRAG_FLAG;
import static io.aeron.logbuffer.FrameDescriptor.END_FRAG_FLAG;
import static io.aeron.logbuffer.FrameDescriptor.UNFRAGMENTED;

import io.aeron.FragmentAssembler;
import io.aeron.Image;
import io.aeron.logbuffer.FragmentHandler;
import io.aeron.logbuffer.FrameDescriptor;
import io.aeron.logbuffer.Header;
import org.agrona.DirectBuffer;
import org.agrona.collections.Int2IntHashMap;

/**
 * Assembles messages of several fragments. Aeron's assembler adds fragments until one of them ends the message or the
 * term is full, so that each unproven sender could make it keep a whole term on the heap; this one drops a message that
 * is longer than Aeron lets any sender make it, with all fragments until the next begins. It also drops fragments that
 * name another session than that of their sender's announcement, for which nothing would end the collection.
 */
final class Assembler implements FragmentHandler {
    private static final int DROPPED = -1;

    private final FragmentHandler target;
    private final FragmentAssembler assembler;
    /** Bytes of the unfinished message of each sender, by session. */
    private final Int2IntHashMap lengths = new Int2IntHashMap(DROPPED);

    Assembler(FragmentHandler target) {
        this.target = target;
        assembler = new FragmentAssembler(target);
    }

    @Override
    public void onFragment(DirectBuffer buffer, int offset, int length, Header header) {
        int session = header.sessionId();
        Image image = (Image) header.context();
        if (session != image.sessionId()) {
            return;
        }
        byte flags = header.flags();
        if ((flags & UNFRAGMENTED) == UNFRAGMENTED) {
            target.onFragment(buffer, offset, length, header);
            return;
        }
        int before = (flags & BEGIN_FRAG_FLAG) != 0 ? 0 : lengths.get(session);
        if (before == DROPPED) {
            return;
        }
        int max = FrameDescriptor.computeMaxMessageLength(image.termBufferLength());
        if (length > max - before) {
            forget(session);
            return;
        }
        if ((flags & END_FRAG_FLAG) != 0) {
            lengths.remove(session);
        } else {
            lengths.put(session, before + length);
        }
        assembler.onFragment(buffer, offset, length, header);
    }

    /** Drops what has arrived of an unfinished message, and the memory for it. */
    void forget(int session) {
        lengths.remove(session);
        assembler.freeSessionBuffer(session);
    }
}
