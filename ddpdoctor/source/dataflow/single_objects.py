"""One object of a class: what its own methods were given counts, and not what those of other objects were."""

from __future__ import annotations

from dataclasses import dataclass, field

from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.source.dataflow.origins import Origins, without_context
from ddpdoctor.source.program.calling_contexts import CallingContext, Contexts
from ddpdoctor.source.program.program_code import ProgramCode
from ddpdoctor.source.syntax.scopes import Scope

MOST_OBJECTS = 8  # places where objects of one class are made: beyond, all objects of the class are taken together


@dataclass(frozen=True, slots=True, eq=False)
class SingleObject:
    """One object: where it is made, and the classes of the program whose methods it has."""

    made: str
    """`file:line:column` of the call that makes it."""
    classes: frozenset[int]
    """Its class and the bases of this, by identity."""
    context: CallingContext | None = None
    """The call by which the factory is looked at that makes it; None where no factory does."""


@dataclass(slots=True, eq=False)
class SingleObjects:
    """The objects that are looked at one by one."""

    code: ProgramCode
    """Has the calls that make objects of a class."""
    contexts: Contexts
    """Has the calls of the factories that make them."""
    _known: dict[tuple[int, str], SingleObject] = field(default_factory=dict)

    def find(self, cls: Scope, made: str) -> SingleObject | None:
        """The object that a call makes; None where the class has one object, or too many of them."""
        places = self.code.index.constructions.get(id(cls), ())
        place = without_context(made)
        suffix = made.removeprefix(place)
        if not made or not (1 if suffix else 2) <= len(places) <= MOST_OBJECTS:
            return None
        key = (id(cls), made)
        if key not in self._known:
            factories = [scope for scope, call in places if suffix and self.code.place(call.node, scope) == place]
            context = next((one for each in factories for one in self.contexts.of(each) if one.suffix == suffix), None)
            self._known[key] = SingleObject(place, frozenset(map(id, self._family(cls))), context)
        return self._known[key]

    def called(self, receiver: Origins, method: Scope) -> SingleObject | None:
        """The object whose method is called; None where it may be one of several."""
        objects = [one for one in receiver if one.kind is Kind.INSTANCE]
        cls = method.of_class
        return self.find(cls, objects[0].made) if cls is not None and len(objects) == 1 else None

    def _family(self, cls: Scope) -> list[Scope]:
        found = [cls]
        for one in found:
            found += (base for base in self.code.project.bases(one) if isinstance(base, Scope) and base not in found)
        return found
