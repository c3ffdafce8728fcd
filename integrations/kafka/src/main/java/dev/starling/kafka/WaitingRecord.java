package dev.starling.kafka;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.processor.api.Record;

/** A record that waits for its batch, as stored in the state store. Key and value may be {@code null}. */
record WaitingRecord(byte[] key, byte[] value, long timestamp, Headers headers, String topic, int partition,
        long offset) {
    static byte[] encode(Record<byte[], byte[]> record, String topic, int partition, long offset) {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (DataOutputStream out = new DataOutputStream(bytes)) {
            write(out, record.key());
            write(out, record.value());
            out.writeLong(record.timestamp());
            out.writeUTF(topic);
            out.writeInt(partition);
            out.writeLong(offset);
            Header[] headers = record.headers().toArray();
            out.writeInt(headers.length);
            for (Header header : headers) {
                // Not writeUTF, whose limit is 65,535 bytes.
                write(out, StreamHeaders.bytes(header.key()));
                write(out, header.value());
            }
        } catch (IOException e) {
            throw new UncheckedIOException("writing to memory cannot fail", e);
        }
        return bytes.toByteArray();
    }

    static WaitingRecord decode(byte[] stored) {
        try (DataInputStream in = new DataInputStream(new ByteArrayInputStream(stored))) {
            byte[] key = read(in);
            byte[] value = read(in);
            long timestamp = in.readLong();
            String topic = in.readUTF();
            int partition = in.readInt();
            long offset = in.readLong();
            Headers headers = new RecordHeaders();
            for (int left = in.readInt(); left > 0; left--) {
                headers.add(new String(read(in), StandardCharsets.UTF_8), read(in));
            }
            return new WaitingRecord(key, value, timestamp, headers, topic, partition, offset);
        } catch (IOException e) {
            throw new StreamException("a record in the state store is damaged: " + e.getMessage(), e);
        }
    }

    private static void write(DataOutputStream out, byte[] bytes) throws IOException {
        out.writeInt(bytes == null ? -1 : bytes.length);
        if (bytes != null) {
            out.write(bytes);
        }
    }

    private static byte[] read(DataInputStream in) throws IOException {
        int length = in.readInt();
        return length < 0 ? null : in.readNBytes(length);
    }
}
