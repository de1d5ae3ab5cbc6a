package onceproof;

import java.io.Serializable;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.JsonNodeFactory;
import org.apache.flink.table.data.ArrayData;
import org.apache.flink.table.data.DecimalData;
import org.apache.flink.table.data.GenericArrayData;
import org.apache.flink.table.data.GenericMapData;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.MapData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.types.logical.DecimalType;
import org.apache.flink.table.types.logical.IntType;
import org.apache.flink.table.types.logical.LogicalType;
import org.apache.flink.types.RowKind;

/**
 * Changes of a table as text, and back.
 *
 * <p>The text is an array of JSON: the kind of the change, then its values. They are those of the engine's tables: an
 * integer for a date, a time (milliseconds) or a timestamp (nanoseconds), text for a decimal, hexadecimal digits for
 * bytes, an array for an array or a row, and an array of pairs for a map.
 */
final class TableRows implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final BigInteger NANOS_PER_MS = BigInteger.valueOf(1_000_000);
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final JsonNodeFactory NODES = JsonNodeFactory.instance;

  private final LogicalType type;

  TableRows(LogicalType type) {
    this.type = type;
  }

  /** Returns the change that a text holds. */
  RowData row(byte[] text) {
    try {
      ArrayNode cells = (ArrayNode) JSON.readTree(text);
      RowKind kind = kindOf(cells.remove(0).textValue());
      GenericRowData row = (GenericRowData) valueOf(type, cells);
      row.setRowKind(kind);
      return row;
    } catch (java.io.IOException error) {
      throw new IllegalStateException("a record that is no JSON", error);
    }
  }

  /** Returns some values of a change as text. */
  String key(RowData row, int[] columns) {
    ArrayNode cells = NODES.arrayNode();
    List<LogicalType> types = type.getChildren();
    for (int column : columns) {
      LogicalType each = types.get(column);
      cells.add(nodeOf(each, RowData.createFieldGetter(each, column).getFieldOrNull(row)));
    }
    return cells.toString();
  }

  /** Returns the line that a change of a table leaves; without a number it has none. */
  String line(String table, RowData row, Long number) {
    ArrayNode line = NODES.arrayNode().add(table).add(row.getRowKind().shortString());
    line.add(nodeOf(type, row));
    return line.add(number).toString();
  }

  private static RowKind kindOf(String name) {
    for (RowKind kind : RowKind.values()) {
      if (kind.shortString().equals(name)) {
        return kind;
      }
    }
    throw new IllegalStateException("no kind of change: " + name);
  }

  private static Object valueOf(LogicalType type, JsonNode node) {
    if (node.isNull()) {
      return null;
    }
    List<LogicalType> parts = type.getChildren();
    switch (type.getTypeRoot()) {
      case BOOLEAN:
        return node.booleanValue();
      case TINYINT:
        return (byte) node.intValue();
      case SMALLINT:
        return (short) node.intValue();
      case INTEGER:
      case DATE:
      case TIME_WITHOUT_TIME_ZONE:
      case INTERVAL_YEAR_MONTH:
        return node.intValue();
      case BIGINT:
      case INTERVAL_DAY_TIME:
        return node.longValue();
      case FLOAT:
        return Float.parseFloat(node.asText());
      case DOUBLE:
        return Double.parseDouble(node.asText());
      case DECIMAL:
        DecimalType decimal = (DecimalType) type;
        return DecimalData.fromBigDecimal(
            new BigDecimal(node.textValue()), decimal.getPrecision(), decimal.getScale());
      case CHAR:
      case VARCHAR:
        return StringData.fromString(node.textValue());
      case BINARY:
      case VARBINARY:
        return HexFormat.of().parseHex(node.textValue());
      case TIMESTAMP_WITHOUT_TIME_ZONE:
      case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
        BigInteger nanos = node.bigIntegerValue();
        BigInteger rest = nanos.mod(NANOS_PER_MS);
        return TimestampData.fromEpochMillis(
            nanos.subtract(rest).divide(NANOS_PER_MS).longValueExact(), rest.intValue());
      case ARRAY:
        Object[] elements = new Object[node.size()];
        for (int place = 0; place < elements.length; place++) {
          elements[place] = valueOf(parts.get(0), node.get(place));
        }
        return new GenericArrayData(elements);
      case MAP:
      case MULTISET:
        Map<Object, Object> entries = new LinkedHashMap<>();
        for (JsonNode pair : node) {
          entries.put(valueOf(parts.get(0), pair.get(0)), valueOf(itemOf(parts), pair.get(1)));
        }
        return new GenericMapData(entries);
      case ROW:
      case STRUCTURED_TYPE:
        GenericRowData row = new GenericRowData(parts.size());
        for (int place = 0; place < parts.size(); place++) {
          row.setField(place, valueOf(parts.get(place), node.get(place)));
        }
        return row;
      default:
        throw new IllegalStateException("no records of " + type.asSummaryString());
    }
  }

  private static JsonNode nodeOf(LogicalType type, Object value) {
    if (value == null) {
      return NODES.nullNode();
    }
    List<LogicalType> parts = type.getChildren();
    switch (type.getTypeRoot()) {
      case BINARY:
      case VARBINARY:
        return NODES.textNode(HexFormat.of().formatHex((byte[]) value));
      case DECIMAL:
        return NODES.textNode(((DecimalData) value).toBigDecimal().toPlainString());
      case TIMESTAMP_WITHOUT_TIME_ZONE:
      case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
        TimestampData time = (TimestampData) value;
        return NODES.numberNode(
            BigInteger.valueOf(time.getMillisecond())
                .multiply(NANOS_PER_MS)
                .add(BigInteger.valueOf(time.getNanoOfMillisecond())));
      case ARRAY:
        return arrayOf(parts.get(0), (ArrayData) value);
      case MAP:
      case MULTISET:
        ArrayNode keys = arrayOf(parts.get(0), ((MapData) value).keyArray());
        ArrayNode items = arrayOf(itemOf(parts), ((MapData) value).valueArray());
        ArrayNode pairs = NODES.arrayNode();
        for (int place = 0; place < keys.size(); place++) {
          pairs.addArray().add(keys.get(place)).add(items.get(place));
        }
        return pairs;
      case ROW:
      case STRUCTURED_TYPE:
        ArrayNode cells = NODES.arrayNode();
        for (int place = 0; place < parts.size(); place++) {
          LogicalType each = parts.get(place);
          cells.add(nodeOf(each, RowData.createFieldGetter(each, place).getFieldOrNull((RowData) value)));
        }
        return cells;
      default:
        return scalarOf(value);
    }
  }

  private static JsonNode scalarOf(Object value) {
    if (value instanceof Boolean) {
      return NODES.booleanNode((Boolean) value);
    }
    // A NaN is no number of JSON, and the engine reads numbers from text as well.
    boolean isText = value instanceof StringData || value instanceof Float || value instanceof Double;
    return isText ? NODES.textNode(value.toString()) : NODES.numberNode(((Number) value).longValue());
  }

  private static ArrayNode arrayOf(LogicalType type, ArrayData values) {
    ArrayData.ElementGetter getter = ArrayData.createElementGetter(type);
    ArrayNode nodes = NODES.arrayNode();
    for (int place = 0; place < values.size(); place++) {
      nodes.add(nodeOf(type, getter.getElementOrNull(values, place)));
    }
    return nodes;
  }

  /** Returns the type of what a key of a map has: a value, or in a multiset a count. */
  private static LogicalType itemOf(List<LogicalType> parts) {
    return parts.size() > 1 ? parts.get(1) : new IntType(false);
  }
}
