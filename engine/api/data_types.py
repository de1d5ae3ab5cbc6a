"""The types of columns, under the names of PyFlink's tables (PyFlink: pyflink.table.DataTypes).

Each is one of ``Types``, so both can stand wherever a type is asked for. Any column may be None, whatever
``nullable`` says. What SQL knows of lengths and digits is not checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from onceproof.engine.flink_names import AnswersForFlink
from onceproof.engine.types import TypeInformation, Types


class DataField(NamedTuple):
    """A column of a row."""

    name: str
    type: TypeInformation


class DataTypes(metaclass=AnswersForFlink):
    """The types of columns (PyFlink: DataTypes). Any column may be None, whatever ``nullable`` says."""

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> TypeInformation:
        """True or False."""
        return Types.BOOLEAN()

    @staticmethod
    def TINYINT(nullable: bool = True) -> TypeInformation:
        """A signed integer of 8 bits."""
        return Types.BYTE()

    @staticmethod
    def SMALLINT(nullable: bool = True) -> TypeInformation:
        """A signed integer of 16 bits."""
        return Types.SHORT()

    @staticmethod
    def INT(nullable: bool = True) -> TypeInformation:
        """A signed integer of 32 bits."""
        return Types.INT()

    @staticmethod
    def BIGINT(nullable: bool = True) -> TypeInformation:
        """A signed integer of 64 bits."""
        return Types.LONG()

    @staticmethod
    def FLOAT(nullable: bool = True) -> TypeInformation:
        """A float of 32 bits."""
        return Types.FLOAT()

    @staticmethod
    def DOUBLE(nullable: bool = True) -> TypeInformation:
        """A float of 64 bits."""
        return Types.DOUBLE()

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> TypeInformation:
        """A decimal.Decimal; ``precision`` and ``scale`` are those of the column of a file."""
        return Types.BIG_DEC()

    @staticmethod
    def STRING(nullable: bool = True) -> TypeInformation:
        """Text."""
        return Types.STRING()

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> TypeInformation:
        """Text, however long."""
        return Types.STRING()

    @staticmethod
    def BYTES(nullable: bool = True) -> TypeInformation:
        """Bytes."""
        return Types.PRIMITIVE_ARRAY(Types.BYTE())

    @staticmethod
    def DATE(nullable: bool = True) -> TypeInformation:
        """A datetime.date."""
        return Types.SQL_DATE()

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> TypeInformation:
        """A datetime.time."""
        return Types.SQL_TIME()

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> TypeInformation:
        """A datetime.datetime without a zone."""
        return Types.SQL_TIMESTAMP()

    @staticmethod
    def ARRAY(element_type: TypeInformation, nullable: bool = True) -> TypeInformation:
        """A list of values of one type."""
        return Types.LIST(element_type)

    @staticmethod
    def MAP(key_type: TypeInformation, value_type: TypeInformation, nullable: bool = True) -> TypeInformation:
        """A dict with one type for its keys and one for its values."""
        return Types.MAP(key_type, value_type)

    @staticmethod
    def FIELD(name: str, data_type: TypeInformation, description: str | None = None) -> DataField:
        """A column of a row; its description is not kept."""
        return DataField(name, data_type)

    @staticmethod
    def ROW(row_fields: Sequence[DataField] = (), nullable: bool = True) -> TypeInformation:
        """A Row with these columns."""
        return Types.ROW_NAMED([field.name for field in row_fields], [field.type for field in row_fields])
